"""The random policy: one of the admissible actions, each as likely as the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentrl_components.engines.engine import Generation, Request, Stop
from agentrl_components.errors import EngineError

if TYPE_CHECKING:
    import torch


class RandomEngine:
    """An `Engine` without a model. Its log-probabilities are those of whole actions, on their first
    token; the rest follows from it."""

    async def generate(self, request: Request) -> Generation:
        if not request.admissible:
            raise EngineError("the random policy needs a world that names its admissible actions")
        actions = request.admissible
        action = actions[chosen(request.seed, len(actions))]
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

    async def load(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        del weights, version

    async def close(self) -> None:
        return


def chosen(seed: int, count: int) -> int:
    """One of `count` things, each as likely as the others; `seed` has 63 random bits."""
    # The high bits of a hash, scaled: no modulo bias worth the name below 2**31 things.
    return (seed >> 31) * count >> 32
