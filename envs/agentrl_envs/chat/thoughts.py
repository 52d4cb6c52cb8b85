"""Thoughts that a model writes in a reply before its action or its answer."""

from __future__ import annotations

THOUGHT, THOUGHT_END = "<think>", "</think>"
"""What a model that thinks writes around its thoughts (Qwen3, DeepSeek-R1)."""


def after_thoughts(text: str, *, begun: bool = False) -> str:
    """The part of a reply that follows its thoughts, or all of it if there are none. It is what
    an environment gets. Empty if the thoughts were cut off. `begun`: the prompt ends with the
    beginning of the thoughts, so that the reply does not have it."""
    _, end, after = text.rpartition(THOUGHT_END)
    if end:
        return after.strip()
    return "" if begun or THOUGHT in text else text
