"""The sampling engine as the rollout uses it: token ids in, token ids out.

`torch_engine.engine.TorchEngine` runs in this process, `vllm_engine.engine.VllmEngine` wraps vLLM,
`random_policy.RandomEngine` needs no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from agentrl_components.spec.fields.rollout import Interrupt

if TYPE_CHECKING:
    import torch


class Stop(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    """A stop token was sampled or forced; it is the last id."""
    LENGTH = "length"
    """The token limit was reached, so there is no stop token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Sampling parameters of a reply."""

    temperature: float
    """0: greedy, with log-probabilities at temperature 1."""
    top_p: float
    """Probability of the nucleus. 1: the whole distribution."""
    max_tokens: int
    """Token limit of the reply."""
    stop: tuple[int, ...]
    """Token ids that end a reply."""


@lru_cache(maxsize=8)
def stop_set(stop: tuple[int, ...]) -> frozenset[int]:
    """Stop tokens for look-ups: `template: react` has two thousand of them with the vocabulary of
    Qwen2."""
    return frozenset(stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for one reply."""

    session: int
    """Number of the episode, so that an engine can keep its cache between turns."""
    ids: Sequence[int]
    """All tokens of the episode so far. Extends the session's previous request and reply."""
    seed: int
    """64 bits. The reply is a function of the weights, `ids`, `sampling`, `admissible` and this."""
    sampling: Sampling
    admissible: Sequence[Sequence[int]] | None = None
    """Admissible replies as token ids without a stop token. None: any reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A sampled reply of R tokens."""

    ids: tuple[int, ...]  # [R]
    logprobs: tuple[float, ...]  # [R] nats, 0 where forced
    sampled: tuple[bool, ...]  # [R], False where forced: only one token was possible
    allowed: tuple[tuple[int, ...], ...] | None  # [R] token ids that were possible; None: all
    stop: Stop
    version: int
    """Version of the weights that sampled the first token."""
    versions: tuple[int, ...] | None = None  # [R]
    """Version of the weights that sampled each token. None: `version`, for all of them."""


def mixed(versions: Sequence[int]) -> tuple[int, ...] | None:
    """`Generation.versions` for the version of each token: None if it is the same for all."""
    return tuple(versions) if len(set(versions)) > 1 else None


class Engine(Protocol):
    """Samples replies, many concurrently."""

    async def generate(self, request: Request) -> Generation:
        """One reply. Raises `EngineError` if the request cannot be answered."""
        ...

    async def release(self, session: int) -> None:
        """Free the cache of a session whose episode has ended."""
        ...

    async def load(
        self,
        weights: Mapping[str, torch.Tensor],
        version: int,
        interrupt: Interrupt = "finish",
    ) -> None:
        """Use these weights, named as transformers names them, for all later replies. Caches of
        older weights are dropped. Replies under way are treated as `rollout.interrupt` says."""
        ...

    async def close(self) -> None:
        """Release the engine's resources."""
        ...
