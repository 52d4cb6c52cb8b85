"""The token buffer of an episode, which only grows, and the check that it did.

An engine is asked with everything the ledger holds and its answer is appended as it came. What is
trained is what the ledger holds; nothing in between decodes or encodes.

Legend: T tokens of the episode, S sampled tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from numpy.typing import NDArray

from agentrl_components.engines.engine import Engine, Generation, Request
from agentrl_components.errors import DriftError

if TYPE_CHECKING:
    import torch

SHOWN = 4
"""Ids shown on either side of a difference."""


class Tokens(TypedDict):
    """What a `Trajectory` says about its tokens: `Trajectory(**ledger.build(), ...)`."""

    ids: NDArray[np.int32]  # [T]
    mask: NDArray[np.bool_]  # [T], True where the agent sampled
    logprobs: NDArray[np.float32]  # [T], 0 where the mask is false
    allowed: tuple[NDArray[np.int32], ...] | None  # [S]; None: the whole vocabulary, every time


class Ledger:
    """One episode's tokens, appended in the order in which the agent saw and said them.

    Every request must be made from `ids`. A reply is told apart from what was forced on it: a token
    that was the only one possible, a stop token among them, is kept but is not the agent's own.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._mask: list[bool] = []
        self._logprobs: list[float] = []
        self._allowed: list[tuple[int, ...]] = []
        self._restricted: bool | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """Everything so far: the ids of the next request. A copy, so a request never changes."""
        return tuple(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def open(self, ids: Sequence[int]) -> None:
        """Begin with the prompt. Raises `DriftError` when the episode has begun."""
        if self._ids:
            raise DriftError(f"the episode has {len(self)} tokens and was to be opened again")
        self.observe(ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Append what the agent is told: separators, observations, the next generation prompt."""
        self._ids.extend(ids)
        self._mask.extend(False for _ in ids)
        self._logprobs.extend(0.0 for _ in ids)

    def reply(self, generation: Generation) -> tuple[int, int]:
        """Append a reply as it was generated; returns its `[start, end)` in `ids`.

        Raises `DriftError` when its parts are not of one length, a sampled token lies outside of
        what was allowed, or only some replies of the episode were held to admissible actions.
        """
        _check_parts(generation)
        restricted = generation.allowed is not None
        if self._restricted not in (None, restricted):
            raise DriftError(
                "an episode whose replies are only sometimes held to admissible actions cannot be "
                "trained on; the environment must offer them at every turn, or use `actions: free`"
            )
        self._restricted = restricted
        start = len(self)
        self._ids.extend(generation.ids)
        self._mask.extend(generation.sampled)
        own = zip(generation.logprobs, generation.sampled, strict=True)
        self._logprobs.extend(logprob if sampled else 0.0 for logprob, sampled in own)
        self._allowed.extend(compress(generation.allowed or (), generation.sampled))
        return start, len(self)

    def build(self) -> Tokens:
        """The arrays of a trajectory, as the episode stands."""
        allowed = tuple(np.asarray(choices, dtype=np.int32) for choices in self._allowed)
        return {
            "ids": np.asarray(self._ids, dtype=np.int32),
            "mask": np.asarray(self._mask, dtype=np.bool_),
            "logprobs": np.asarray(self._logprobs, dtype=np.float32),
            "allowed": allowed if self._restricted else None,
        }


def check_extends(before: Sequence[int], after: Sequence[int]) -> None:
    """Whether `after`, the ids of the next request, begins with `before`, the ids of the last
    request and its reply. Raises `DriftError`, which shows where they part."""
    if tuple(after[: len(before)]) == tuple(before):
        return
    place = next(
        (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(len(before), len(after)),
    )
    window = slice(max(0, place - SHOWN), place + SHOWN + 1)
    raise DriftError(
        f"token {place} changed between two turns: had {list(before[window])}, now "
        f"{list(after[window])} (both from position {window.start}); "
        f"{len(before)} tokens had been seen and said, {len(after)} were sent"
    )


class CheckedEngine:
    """An engine that is asked only what goes on from what it was asked and answered before.

    Sits between a rollout and any engine. Comparing costs less than a microsecond per hundred
    tokens, so it is always on.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[int, tuple[int, ...]] = {}

    async def generate(self, request: Request) -> Generation:
        """One reply. Raises `DriftError` when the request does not extend the session's last one
        and its reply, and what the engine raises."""
        asked = tuple(request.ids)
        check_extends(self._seen.get(request.session, ()), asked)
        generation = await self._engine.generate(request)
        self._seen[request.session] = asked + tuple(generation.ids)
        return generation

    async def release(self, session: int) -> None:
        self._seen.pop(session, None)
        await self._engine.release(session)

    async def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        await self._engine.load(weights, version)

    async def close(self) -> None:
        self._seen.clear()
        await self._engine.close()


def _check_parts(generation: Generation) -> None:
    size = len(generation.ids)
    lengths = {
        "logprobs": len(generation.logprobs),
        "sampled": len(generation.sampled),
        "allowed": size if generation.allowed is None else len(generation.allowed),
    }
    for name, length in lengths.items():
        if length != size:
            raise DriftError(f"a reply of {size} tokens came with {length} {name}")
    for index, choices in enumerate(generation.allowed or ()):
        if generation.sampled[index] and generation.ids[index] not in choices:
            raise DriftError(
                f"token {generation.ids[index]} at {index} of a reply was sampled although only "
                f"{list(choices)} were allowed"
            )
