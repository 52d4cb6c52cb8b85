"""The action in a ReAct reply, for text worlds."""

from __future__ import annotations


def action_of(reply: str) -> str:
    """What follows the last `Action:`, else the whole reply; in lower case, with single spaces."""
    return " ".join(reply.rpartition("Action:")[2].lower().split())
