"""Learning rates as pure functions of the manifest and the iteration or step."""

from __future__ import annotations

import math

from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.spec import RunSpec


def learning_rate(spec: RunSpec, iteration: int) -> float:
    """The policy's learning rate in `iteration`, counted from 0 over the whole run."""
    return spec.update.learning_rate * schedule_factor(spec, iteration)


def schedule_factor(spec: RunSpec, iteration: int) -> float:
    """The learning rate in `iteration` as a share of the highest one, for policy and critic.

    It rises linearly to 1 in the last warm-up iteration and then decays, without a jump, to
    `update.finalShare` in the last iteration of the run."""
    update = spec.update
    warmup = update.warmup_iterations
    if iteration < warmup:
        return (iteration + 1) / warmup
    done = (iteration - warmup) / max(1, total_iterations(spec.horizon) - 1 - warmup)
    if update.schedule == "linear":
        return 1 - (1 - update.final_share) * done
    if update.schedule == "cosine":
        wave = 0.5 * (1 + math.cos(math.pi * done))
        return update.final_share + (1 - update.final_share) * wave
    return 1.0


def cosine_decay(step: int, steps: int, rate: float) -> float:
    """Learning rate of a warm start: a cosine from `rate` to a tenth of it over `steps` steps."""
    return rate * (0.55 + 0.45 * math.cos(math.pi * step / max(1, steps)))
