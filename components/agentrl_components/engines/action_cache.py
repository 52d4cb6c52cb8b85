"""What is computed from sets of admissible actions, kept for the next turns with the same set."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

V = TypeVar("V")

Actions = tuple[tuple[int, ...], ...]
"""Admissible replies as token ids without a stop token."""

CACHED_TOKENS = 1 << 18
"""Tokens of the sets in a cache. A token takes up to 200 bytes in a trie, so this is about 50 MiB:
thousands of sets of ten actions, or a few dozen of a thousand words."""


class ActionCache(Generic[V]):
    """A function of admissible actions and their stop token whose last results are kept. Their
    number is limited by the tokens of all actions: sets have from one action to thousands. May be
    used on several threads: vLLM's steps have one of their own."""

    def __init__(self, make: Callable[[Actions, int], V], limit: int = CACHED_TOKENS) -> None:
        self._make, self._limit = make, limit
        self._made: OrderedDict[tuple[Actions, int], V] = OrderedDict()
        """From the least to the most recently used."""
        self._tokens = 0
        self._lock = Lock()

    def __call__(self, actions: Actions, stop: int) -> V:
        """What `make` returns, and raises."""
        key = actions, stop
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        made = self._make(actions, stop)
        with self._lock:
            if key not in self._made:  # as another thread may have made it meanwhile
                self._made[key] = made
                self._tokens += _tokens(actions)
            while self._tokens > self._limit and len(self._made) > 1:
                (dropped, _), _ = self._made.popitem(last=False)
                self._tokens -= _tokens(dropped)
        return made

    @property
    def tokens(self) -> int:
        """Tokens of the sets whose results are kept, with their stop tokens."""
        return self._tokens


def _tokens(actions: Actions) -> int:
    """Tokens of all actions with their stop tokens."""
    return sum(map(len, actions)) + len(actions)
