"""Learning rates as pure functions of the manifest and the iteration or step."""

from __future__ import annotations

import math

from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.spec import RunSpec


def learning_rate(spec: RunSpec, iteration: int) -> float:
    """The policy's learning rate in `iteration`, counted from 0 over the whole run."""
    update = spec.update
    rate = update.learning_rate
    if iteration < update.warmup_iterations:
        return rate * (iteration + 1) / update.warmup_iterations
    done = iteration / max(1, total_iterations(spec.horizon) - 1)
    if update.schedule == "linear":
        return rate * (1 - (1 - update.final_share) * done)
    if update.schedule == "cosine":
        wave = 0.5 * (1 + math.cos(math.pi * done))
        return rate * (update.final_share + (1 - update.final_share) * wave)
    return rate


def cosine_decay(step: int, steps: int, rate: float) -> float:
    """Learning rate of a warm start: a cosine from `rate` to a tenth of it over `steps` steps."""
    return rate * (0.55 + 0.45 * math.cos(math.pi * step / max(1, steps)))
