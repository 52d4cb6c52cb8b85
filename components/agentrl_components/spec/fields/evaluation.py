"""Evaluation on held-out tasks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentrl_components.spec.base import SpecModel


class Evaluation(SpecModel):
    """Evaluation on held-out tasks: before training, at the end of each phase and optionally in
    between."""

    tasks: int = Field(default=200, ge=1, le=100000)
    """Number of held-out tasks, divided among the environments by weight."""
    samples: int = Field(default=1, ge=1, le=1024)
    """Episodes of each task. Above 1, pass@k is reported too, for k of 1, 2, 4 and so on, and of
    all of them."""
    temperature: float = Field(default=1.0, ge=0, le=5)
    """Sampling temperature. 0: greedy decoding. vLLM needs 0 or at least 0.01."""
    max_turns: int | None = Field(default=None, ge=1, le=1000)
    """Turn limit of an episode. None: `maxTurns` of the last phase."""
    every: int = Field(default=0, ge=0, le=1000000)
    """Also evaluate after every this many iterations. 0: only before training and at the end of
    each phase. If checkpoints were evaluated, those at the end of a phase included, the best one is
    chosen among those only, so give a multiple of `update.checkpointEvery`."""
    turn_sweep: tuple[Annotated[int, Field(ge=1, le=10000)], ...] = Field(default=(), max_length=16)
    """Further turn limits to report success at (test-time scaling). Strictly increasing, at most
    ten times the longest phase's `maxTurns`. If one is above the limit of the evaluation, or
    environments have limits of their own, the tasks are played twice."""
    random_policy: bool = True
    """Also evaluate a policy that picks uniformly among the admissible actions, in environments
    that report them."""
