"""An engine that returns predefined replies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from agentrl_components.engines.engine import Generation, Request, Stop
from agentrl_components.spec.fields.rollout import Interrupt


class ScriptedEngine:
    """Implements `Engine`: returns `replies` in order, each token with log-probability -1."""

    def __init__(self, replies: Sequence[Sequence[int]], stop: Stop = Stop.STOP) -> None:
        self._replies: Iterator[Sequence[int]] = iter(replies)
        self._stop = stop
        self.requests: list[Request] = []
        """All requests, in order."""
        self.released: list[int] = []
        """All released sessions, in order."""

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

    async def load(
        self,
        weights: Mapping[str, torch.Tensor],
        version: int,
        interrupt: Interrupt = "finish",
    ) -> None:
        del weights, version, interrupt

    async def close(self) -> None:
        return
