"""The sampler, as the rollout sees it: token ids in, token ids out.

`torch_engine.TorchEngine` runs in process; `vllm_engine.VllmEngine` wraps vLLM; `ScriptedEngine`
here says what it is told, for tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch


class Stop(StrEnum):
    """Why a reply ended."""

    STOP = "stop"
    """A stop token was sampled or forced; it is the last id."""
    LENGTH = "length"
    """The token limit was reached; there is no stop token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to sample one reply."""

    temperature: float
    """0: greedy, with log-probabilities at temperature 1."""
    top_p: float
    max_tokens: int
    stop: tuple[int, ...]
    """Token ids that end a reply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One reply to sample."""

    session: int
    """Requests of one episode share it, so that an engine can keep its cache between turns."""
    ids: Sequence[int]
    """Everything so far. Extends what the session's last request held and answered."""
    seed: int
    """64 bits. The reply depends on ids, sampling, admissible, weights and this; on nothing
    else."""
    sampling: Sampling
    admissible: Sequence[Sequence[int]] | None = None
    """Replies that may be given, as token ids without a stop token. None: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One sampled reply of R tokens."""

    ids: tuple[int, ...]  # [R]
    logprobs: tuple[float, ...]  # [R], 0 where forced
    sampled: tuple[bool, ...]  # [R], False: only one token was possible, so none was sampled
    allowed: tuple[tuple[int, ...], ...] | None  # [R] choices at each token; None: the vocabulary
    stop: Stop
    version: int
    """Policy version that sampled it."""


class Engine(Protocol):
    """Samples replies, many at a time."""

    async def generate(self, request: Request) -> Generation:
        """One reply. Raises `EngineError` when this request cannot be answered."""
        ...

    async def release(self, session: int) -> None:
        """The episode is over; forget its cache."""
        ...

    async def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Sample from these weights from now on. Caches of older weights are dropped."""
        ...

    async def close(self) -> None:
        """Give back what the engine holds."""
        ...


class ScriptedEngine:
    """Answers with the given replies, in order, each token with log-probability -1."""

    def __init__(self, replies: Sequence[Sequence[int]], stop: Stop = Stop.STOP) -> None:
        self._replies: Iterator[Sequence[int]] = iter(replies)
        self._stop = stop
        self.requests: list[Request] = []
        """Every request, for the test to look at."""
        self.released: list[int] = []
        """Every released session."""

    async def generate(self, request: Request) -> Generation:
        self.requests.append(request)
        ids = tuple(next(self._replies))
        return Generation(
            ids=ids,
            logprobs=tuple(-1.0 for _ in ids),
            sampled=tuple(True for _ in ids),
            allowed=None,
            stop=self._stop,
            version=0,
        )

    async def release(self, session: int) -> None:
        self.released.append(session)

    async def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        del weights, version

    async def close(self) -> None:
        return
