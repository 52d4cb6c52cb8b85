"""How well the agent does on tasks it has never seen."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentrl_components.spec.fields.base import Part


class Evaluation(Part):
    """Held-out play, before and after training and in between."""

    tasks: int = Field(default=200, ge=1, le=100000)
    """Held-out tasks, shared over the environments by weight."""
    samples: int = Field(default=1, ge=1, le=1024)
    """Episodes of each task; above 1, pass@k is reported."""
    temperature: float = Field(default=1.0, ge=0, le=5)
    """0: greedy."""
    max_turns: int | None = Field(default=None, ge=1, le=1000)
    """Turns allowed. None: the last phase's."""
    every: int = Field(default=0, ge=0, le=1000000)
    """Also evaluate every so many iterations. 0: only before and after."""
    turn_sweep: tuple[Annotated[int, Field(ge=1, le=10000)], ...] = Field(default=(), max_length=16)
    """Also report success when so many turns are allowed (test-time scaling).
    Increasing, at most ten times the longest horizon."""
    random_policy: bool = True
    """Play the random admissible policy beside it, where the environments name admissible
    actions."""
