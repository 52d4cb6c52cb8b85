"""The action in a ReAct reply, for text worlds."""

from __future__ import annotations

MARKS = '*`". '
"""What models put around an action: emphasis, code, quotes, a full stop."""


def action_of(reply: str) -> str:
    """The first line with words after the last `Action:`, else the whole reply; without `MARKS`
    around it, in lower case, with single spaces."""
    _, marker, rest = reply.rpartition("Action:")
    lines = rest.splitlines() if marker else [rest]
    actions = (" ".join(line.lower().split()).strip(MARKS) for line in lines)
    return next(filter(None, actions), "")
