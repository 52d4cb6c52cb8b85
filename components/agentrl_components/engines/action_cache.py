"""What is computed from sets of admissible actions, kept for the next turns with the same set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from agentrl_components.limited_cache import LimitedCache

V = TypeVar("V")

Actions = tuple[tuple[int, ...], ...]
"""Admissible replies as token ids without a stop token."""

CACHED_TOKENS = 1 << 18
"""Tokens of the sets in a cache. A token takes up to 200 bytes in a trie, so this is about 50 MiB:
thousands of sets of ten actions, or a few dozen of a thousand words."""


class ActionCache(Generic[V]):
    """A function of admissible actions and their stop token whose last results are kept. Their
    number is limited by the tokens of all actions: sets have from one action to thousands. The
    newest is kept even if it exceeds the limit alone. May be used on several threads: vLLM's steps
    have one of their own."""

    def __init__(self, make: Callable[[Actions, int], V], limit: int = CACHED_TOKENS) -> None:
        self._cache: LimitedCache[tuple[Actions, int], V] = LimitedCache(
            lambda key: make(*key), lambda key, _: _tokens(key[0]), limit, least=1
        )

    def __call__(self, actions: Actions, stop: int) -> V:
        """What `make` returns, and raises."""
        return self._cache((actions, stop))

    @property
    def tokens(self) -> int:
        """Tokens of the sets whose results are kept, with their stop tokens."""
        return self._cache.tokens


def _tokens(actions: Actions) -> int:
    """Tokens of all actions with their stop tokens."""
    return sum(map(len, actions)) + len(actions)
