"""The interaction horizon: how many turns an episode may take, phase by phase."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.fields.base import Part


class Phase(Part):
    """A stretch of the run at one horizon."""

    max_turns: int = Field(ge=1, le=1000)
    """Turns an episode may take."""
    iterations: int = Field(ge=1, le=1000000)
    """Iterations the phase lasts, or at most lasts where `advance` is not `iterations`."""
    min_iterations: int = Field(default=1, ge=1, le=1000000)
    """Iterations it lasts at least, where `advance` is not `iterations`."""


class Alarm(Part):
    """What to watch for and what to do about it. A bound of None is not watched."""

    action: Literal["record", "hold", "stop", "rollback"] = "record"
    """`record`: a metric and a warning. `hold`: do not lengthen the horizon while it rings. `stop`:
    end the run, keep its checkpoints. `rollback`: return to the best checkpoint, once per phase."""
    window: int = Field(default=10, ge=1, le=1000)
    """Iterations that a signal is averaged over, and that it must last."""
    turns_pinned: float | None = Field(default=None, gt=0, le=1)
    """Rings when this share of episodes ends at the cap while success falls."""
    reward_drop: float | None = Field(default=None, gt=0, le=1)
    """Rings when success falls by this share of its best window."""
    wellformed_below: float | None = Field(default=None, ge=0, le=1)
    """Rings when fewer replies than this hold one valid action."""
    entropy_below: float | None = Field(default=None, ge=0, le=100)
    """Nats per sampled token."""
    grad_norm_above: float | None = Field(default=None, gt=0, le=1e9)
    """Gradient norm before clipping."""
    reward_std_below: float | None = Field(default=None, ge=0, le=1)
    """Mean within-group standard deviation of the score: nothing is left to compare."""
    mismatch_kl_above: float | None = Field(default=None, gt=0, le=1000)
    """KL(sampler || trainer), nats per token."""


class Horizon(Part):
    """ScalingInter-RL's schedule (arXiv 2509.08755, section 3.3)."""

    phases: tuple[Phase, ...] = Field(min_length=1, max_length=64)
    """In order. Horizons may not shrink."""
    advance: Literal["iterations", "success", "plateau"] = "iterations"
    """When a phase ends: after its iterations; as soon as training success reaches `successAbove`;
    or as soon as it has not improved by `plateauDelta` for `window` iterations."""
    success_above: float = Field(default=0.8, gt=0, le=1)
    """For `success`: mean training success over `window`."""
    plateau_delta: float = Field(default=0.01, ge=0, le=1)
    """For `plateau`: the smallest rise that counts."""
    window: int = Field(default=10, ge=1, le=1000)
    """Iterations that training success is averaged over, where `advance` looks at it."""
    alarms: tuple[Alarm, ...] = Field(default=(), max_length=16)
    """Signs of collapse."""
