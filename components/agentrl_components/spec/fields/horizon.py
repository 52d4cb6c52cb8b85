"""Horizon schedule: the turn limit of each phase, when phases end, and alarms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.base import SpecModel


class Phase(SpecModel):
    """A sequence of iterations with the same turn limit."""

    max_turns: int = Field(ge=1, le=1000)
    """Turn limit of an episode."""
    iterations: int = Field(ge=1, le=1000000)
    """Number of iterations. An upper bound if `advance` is not `iterations`."""
    min_iterations: int = Field(default=1, ge=1, le=1000000)
    """Lower bound on the number of iterations, if `advance` is not `iterations`."""


class Alarm(SpecModel):
    """Thresholds on training metrics, and the action taken when one is crossed. A threshold of None
    is not checked."""

    action: Literal["record", "hold", "stop", "rollback"] = "record"
    """`record`: print a warning, which the report lists too. `hold`: do not advance to the next
    phase while the alarm is active. `stop`: end the run and keep its checkpoints. `rollback`:
    return to the checkpoint with the best held-out success of `evaluation.every`, without it the
    best success in training, at most once per phase."""
    window: int = Field(default=10, ge=1, le=1000)
    """Number of iterations over which a metric is averaged and for which it must persist."""
    turns_pinned: float | None = Field(default=None, gt=0, le=1)
    """Active if at least this share of episodes ends at the turn limit while success decreases:
    success of the window is compared with that of the window before, in the same phase and since
    the last rollback."""
    reward_drop: float | None = Field(default=None, gt=0, le=1)
    """Active if success drops by this share of its best windowed average in the phase, since the
    last rollback."""
    wellformed_below: float | None = Field(default=None, ge=0, le=1)
    """Active if the share of replies that are one valid action is below this."""
    entropy_below: float | None = Field(default=None, ge=0, le=100)
    """Active if the policy's entropy is below this many nats per sampled token."""
    grad_norm_above: float | None = Field(default=None, gt=0, le=1e9)
    """Active if the gradient norm before clipping is above this."""
    reward_std_below: float | None = Field(default=None, ge=0, le=1)
    """Active if the mean standard deviation of the reward, shaped as in `algorithm.reward`, within
    a group is below this: episodes of a task no longer differ."""
    mismatch_kl_above: float | None = Field(default=None, gt=0, le=1000)
    """Active if KL(sampler || trainer) is above this many nats per token, over tokens that the
    present weights sampled."""


class Horizon(SpecModel):
    """The schedule of ScalingInter-RL (arXiv 2509.08755, section 3.3)."""

    phases: tuple[Phase, ...] = Field(min_length=1, max_length=64)
    """Phases in order. `maxTurns` may not decrease."""
    advance: Literal["iterations", "success", "plateau"] = "iterations"
    """When a phase ends. `iterations`: after its iterations. `success`: as soon as training success
    reaches `successAbove`. `plateau`: as soon as training success has not improved by
    `plateauDelta` for `window` iterations."""
    success_above: float = Field(default=0.8, gt=0, le=1)
    """For `success`: threshold on training success, averaged over `window` iterations."""
    plateau_delta: float = Field(default=0.01, ge=0, le=1)
    """For `plateau`: the smallest increase of training success that counts as an improvement."""
    window: int = Field(default=10, ge=1, le=1000)
    """Iterations over which training success is averaged for `success` and `plateau`."""
    alarms: tuple[Alarm, ...] = Field(default=(), max_length=16)
    """Alarms that detect a collapse of training."""
