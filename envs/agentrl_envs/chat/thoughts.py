"""Thoughts that a model writes in a reply before its action or its answer."""

from __future__ import annotations

import re

THOUGHT, THOUGHT_END = "<think>", "</think>"
"""What a model that thinks writes around its thoughts (Qwen3, DeepSeek-R1)."""

_THOUGHTS = re.compile(rf"\s*(?:{THOUGHT}.*?{THOUGHT_END}\s*)+", re.DOTALL)
"""The think blocks at the beginning of a reply."""


def after_thoughts(text: str, *, begun: bool = False) -> str:
    """The part of a reply that follows its thoughts, or all of it if there are none. It is what
    an environment gets. Empty if the thoughts were cut off.

    Thoughts are the think blocks at the beginning. Later ones are part of the reply: a model that
    does not stop writes the answer of the environment and its next turns too, and what it did first
    must not be lost. The time is linear in the length of the reply.

    Args:
        text: the reply as it was sampled.
        begun: the prompt ends with the beginning of the thoughts, so that the reply does not have
            it. False also where that is not known: a reply whose first mark is the end of thoughts
            is taken for such a one."""
    if begun or THOUGHT_END in text.partition(THOUGHT)[0]:
        text = THOUGHT + text
    thoughts = _THOUGHTS.match(text)
    after = text[thoughts.end() :] if thoughts else text
    if after.lstrip().startswith(THOUGHT):
        return ""
    return after.strip() if thoughts else text
