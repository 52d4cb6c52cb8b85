"""Encoded texts, kept because environments repeat their observations and actions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

ENTRY = 8
"""Tokens that a text counts for beside its own: an entry takes memory even if its text is short."""


class TextCache:
    """A function from texts to token ids whose last results are kept. Their number is limited by
    their tokens: texts have from one token to thousands. May be used on several threads."""

    def __init__(self, encode: Callable[[str], tuple[int, ...]], limit: int) -> None:
        """`limit` is in tokens, of all texts that are kept together."""
        self._encode, self._limit = encode, limit
        self._kept: OrderedDict[str, tuple[int, ...]] = OrderedDict()
        """From the least to the most recently used."""
        self._tokens = 0
        self._lock = Lock()

    def __call__(self, text: str) -> tuple[int, ...]:
        """The ids of `text`. Raises what `encode` raises."""
        with self._lock:
            known = self._kept.get(text)
            if known is not None:
                self._kept.move_to_end(text)
                return known
        ids = self._encode(text)
        with self._lock:
            if text not in self._kept:  # as another thread may have encoded it meanwhile
                self._kept[text] = ids
                self._tokens += len(ids) + ENTRY
            while self._tokens > self._limit:
                _, dropped = self._kept.popitem(last=False)
                self._tokens -= len(dropped) + ENTRY
        return ids

    @property
    def tokens(self) -> int:
        """Tokens of the texts that are kept, with `ENTRY` for each."""
        return self._tokens
