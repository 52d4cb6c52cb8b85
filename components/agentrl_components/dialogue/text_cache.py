"""Encoded texts, kept because environments repeat their observations and actions."""

from __future__ import annotations

from collections.abc import Callable

from agentrl_components.limited_cache import LimitedCache

ENTRY = 8
"""Tokens that a text counts for beside its own: an entry takes memory even if its text is short."""


class TextCache(LimitedCache[str, tuple[int, ...]]):
    """A function from texts to token ids whose last results are kept. Their number is limited by
    their tokens: texts have from one token to thousands."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]], limit: int) -> None:
        """`limit` is in tokens, of all texts that are kept together, with `ENTRY` for each."""
        super().__init__(encode, lambda _, ids: len(ids) + ENTRY, limit)
