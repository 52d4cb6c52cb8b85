"""Append-only token buffer of an episode.

A request to the engine holds every token of the buffer, and the reply is appended exactly as the
engine returned it. These tokens are the ones that are trained on; they are never decoded and
encoded again.

Legend: T tokens of the episode, S sampled tokens, R tokens of a reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from agentrl_components.engines.engine import Generation
from agentrl_components.errors import DriftError


class TokenArrays(TypedDict):
    """The token fields of a `Trajectory`: `Trajectory(**buffer.arrays(), ...)`."""

    ids: NDArray[np.int32]  # [T]
    mask: NDArray[np.bool_]  # [T], True where the agent sampled the token
    logprobs: NDArray[np.float32]  # [T], 0 where the mask is false
    allowed: tuple[NDArray[np.int32], ...] | None
    """[S] token ids that could have been sampled. None: the whole vocabulary, for every token."""


class TokenBuffer:
    """Tokens of one episode, in the order in which the agent read and wrote them.

    Every request must be made from `ids`. Forced tokens of a reply (where only one token was
    possible, which may be the stop token) are stored, but masked: the agent did not choose them."""

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._mask: list[bool] = []
        self._logprobs: list[float] = []
        self._allowed: list[tuple[int, ...]] = []
        self._confined: bool | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """[T] all tokens so far: the ids of the next request. A copy."""
        return tuple(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def open(self, ids: Sequence[int]) -> None:
        """Append the prompt. Raises `DriftError` if the buffer is not empty."""
        if self._ids:
            raise DriftError(f"the episode already has {len(self)} tokens and was opened again")
        self.observe(ids)

    def observe(self, ids: Sequence[int]) -> None:
        """Append tokens that the agent reads: separators, observations, the next prompt."""
        self._ids.extend(ids)
        self._mask.extend(False for _ in ids)
        self._logprobs.extend(0.0 for _ in ids)

    def reply(self, generation: Generation) -> tuple[int, int]:
        """Append a reply as it was generated. Returns its range [start, end) in `ids`.

        Raises:
            DriftError: the reply's arrays differ in length, a sampled token was not allowed, or
                only some replies of the episode were restricted to admissible actions.
        """
        _check(generation)
        confined = generation.allowed is not None
        if self._confined not in (None, confined):
            raise DriftError(
                "only some replies of an episode were restricted to admissible actions, so it "
                "cannot be trained on; the environment must offer actions at every turn, or use "
                "`actions: free`"
            )
        self._confined = confined
        start = len(self)
        self._ids.extend(generation.ids)
        self._mask.extend(generation.sampled)
        own = zip(generation.logprobs, generation.sampled, strict=True)
        self._logprobs.extend(logprob if sampled else 0.0 for logprob, sampled in own)
        self._allowed.extend(compress(generation.allowed or (), generation.sampled))
        return start, len(self)

    def arrays(self) -> TokenArrays:
        """The tokens so far, as the arrays of a trajectory."""
        allowed = tuple(np.asarray(choices, dtype=np.int32) for choices in self._allowed)
        return {
            "ids": np.asarray(self._ids, dtype=np.int32),
            "mask": np.asarray(self._mask, dtype=np.bool_),
            "logprobs": np.asarray(self._logprobs, dtype=np.float32),
            "allowed": allowed if self._confined else None,
        }


def _check(generation: Generation) -> None:
    """Raise `DriftError` if the arrays of a reply contradict one another."""
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
