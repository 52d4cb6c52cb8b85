"""Learning rates as pure functions of the manifest and the iteration or step."""

from __future__ import annotations

import math

from agentrl_components.schedule.horizon import total_iterations
from agentrl_components.spec import RunSpec, WarmStart


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


def critic_learning_rate(spec: RunSpec, iteration: int) -> float:
    """The critic's learning rate in `iteration`."""
    rate = spec.algorithm.critic.learning_rate
    if rate is None:
        rate = 1e-3 if spec.model.source == "tiny" else 1e-5
    return rate * schedule_factor(spec, iteration)


def warm_start_learning_rate(spec: RunSpec, warm: WarmStart) -> float:
    """The highest learning rate of a warm start."""
    if warm.learning_rate is not None:
        return warm.learning_rate
    return 3e-3 if spec.model.source == "tiny" else 1e-5


def cosine_decay(step: int, steps: int, rate: float) -> float:
    """Learning rate of a warm start: a cosine from `rate` to a tenth of it over `steps` steps."""
    return rate * (0.55 + 0.45 * math.cos(math.pi * step / max(1, steps)))
