"""The random policy: a uniformly random admissible action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentrl_components.engines.engine import Generation, Request, Stop
from agentrl_components.errors import EngineError
from agentrl_components.spec.fields.rollout import Interrupt

if TYPE_CHECKING:
    import torch


class RandomEngine:
    """Implements `Engine` without a model. The first token of a reply has the log-probability of
    the whole action; the other tokens are forced."""

    async def generate(self, request: Request) -> Generation:
        if not request.admissible:
            raise EngineError("the random policy needs an environment with admissible actions")
        actions = request.admissible
        action = actions[random_index(request.seed, len(actions))]
        ids = (*action, request.sampling.stop[0])
        return Generation(
            ids=ids,
            logprobs=(-math.log(len(actions)), *(0.0 for _ in action)),
            sampled=(True, *(False for _ in action)),
            allowed=None,
            stop=Stop.STOP,
            version=-1,
        )

    async def release(self, session: int) -> None:
        del session

    async def load(
        self,
        weights: Mapping[str, torch.Tensor],
        version: int,
        interrupt: Interrupt = "finish",
    ) -> None:
        del weights, version, interrupt

    async def close(self) -> None:
        return


def random_index(seed: int, count: int) -> int:
    """A uniformly random index below `count`. `seed` has 63 random bits."""
    # Scales the high bits, which has negligible bias for counts far below 2**31.
    return (seed >> 31) * count >> 32
