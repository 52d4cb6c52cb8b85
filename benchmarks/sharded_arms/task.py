"""What every arm trains: the model, the episodes and the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentrl_components.spec import RunSpec
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import Imitation, Objective, PolicyGradient
from agentrl_components.update.packing import Example

EPISODES, SHORTEST, LONGEST, VOCABULARY = 8, 8, 160, 300


@dataclass(frozen=True, kw_only=True)
class Task:
    """What every arm does."""

    folder: str
    updates: int
    learning_rate: float
    objective: str
    dtype: str = "float32"

    def spec(self) -> RunSpec:
        """The manifest of the run."""
        return RunSpec.model_validate(
            {
                "model": {
                    "source": f"file://{self.folder}",
                    "context": 4096,
                    "template": "chat",
                    "dtype": self.dtype,
                },
                "environments": [{"name": "babyai", "builtin": "babyai"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "update": {"microBatchTokens": 256},
            }
        )


def examples(update: int) -> list[Example]:
    """The episodes of an update: most are short, few are long."""
    draw = np.random.default_rng(update)
    spread = draw.random(EPISODES) ** 3
    out = []
    for length in (SHORTEST + spread * (LONGEST - SHORTEST)).astype(int):
        sampled = np.arange(1, length)
        size = len(sampled)
        out.append(
            Example(
                ids=draw.integers(0, VOCABULARY, length).astype(np.int32),
                sampled=sampled,
                allowed=None,
                temperature=1.0,
                columns={
                    "sampler": draw.normal(-5.7, 0.1, size).astype(np.float32),
                    "advantage": draw.normal(0.0, 1.0, size).astype(np.float32),
                    "weight": (draw.random(size) - 0.3).astype(np.float32),
                },
            )
        )
    return out


def objective_of(task: Task, chosen: Sequence[Example]) -> Objective:
    """The loss of an update."""
    tokens = sum(len(e.sampled) for e in chosen)
    if task.objective == "likelihood":
        return Imitation(total_weight=float(tokens), chunk=1024)
    return PolicyGradient(
        algorithm=task.spec().algorithm,
        denominators=Denominators(tokens=tokens, episodes=len(chosen), token_limit=4096),
        chunk=1024,
        unmoved=True,
    )
