"""A cache whose size is limited by the tokens of what it keeps."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LimitedCache(Generic[K, V]):
    """A function whose most recently used results are kept. May be used on several threads. The
    function runs outside the lock, so two threads may compute the same result at once."""

    def __init__(
        self,
        make: Callable[[K], V],
        tokens_of: Callable[[K, V], int],
        limit: int,
        *,
        least: int = 0,
    ) -> None:
        """Args:
        make: the function.
        tokens_of: the size of an argument and its result, in tokens.
        limit: of the sizes of all results that are kept, in tokens.
        least: number of results that are kept even beyond the limit.
        """
        self._make, self._tokens_of, self._limit, self._least = make, tokens_of, limit, least
        self._kept: OrderedDict[K, V] = OrderedDict()
        """From the least to the most recently used."""
        self._lock = Lock()
        self.tokens = 0
        """Sum of the sizes of what is kept."""

    def __call__(self, key: K) -> V:
        """What `make` returns, and raises."""
        with self._lock, suppress(KeyError):
            self._kept.move_to_end(key)
            return self._kept[key]
        made = self._make(key)
        with self._lock:
            if key not in self._kept:  # as another thread may have made it meanwhile
                self._kept[key] = made
                self.tokens += self._tokens_of(key, made)
            while self.tokens > self._limit and len(self._kept) > self._least:
                self.tokens -= self._tokens_of(*self._kept.popitem(last=False))
        return made
