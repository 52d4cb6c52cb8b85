"""The step size of an iteration: a pure function of the manifest and its number."""

from __future__ import annotations

import math

from agentrl_components.spec import RunSpec


def learning_rate(spec: RunSpec, number: int) -> float:
    """The step size of iteration `number`, from 0."""
    update = spec.update
    rate = update.learning_rate
    if number < update.warmup_iterations:
        return rate * (number + 1) / update.warmup_iterations
    done = number / max(1, total(spec) - 1)
    if update.schedule == "linear":
        return rate * (1 - (1 - update.final_share) * done)
    if update.schedule == "cosine":
        wave = 0.5 * (1 + math.cos(math.pi * done))
        return rate * (update.final_share + (1 - update.final_share) * wave)
    return rate


def total(spec: RunSpec) -> int:
    """Most iterations of the run."""
    return sum(phase.iterations for phase in spec.horizon.phases)
