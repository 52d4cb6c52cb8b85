"""What the learning side needs of samplers that play while it learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerLoad:
    """What a sampler did since it was last asked."""

    seconds: float
    """Wall-clock seconds."""
    busy_s: float
    """The seconds in which it had an episode to play."""
    prompt_tokens: int
    """Tokens of all requests to its engine."""
    cached_tokens: int
    """The prompt tokens that the engine's cache held."""


class StreamingSamplers(Protocol):
    """Samplers that play groups of episodes while the caller does something else.

    All episodes of a group are played by one sampler, so every turn finds its prefix in the
    engine's cache."""

    def start(self, number: int, jobs: Sequence[Job], rules: Rules) -> None:
        """Start to play the episodes of group `number`, and return. They are sampled with the
        weights of the last hand-over or, where they go on over a hand-over, of later ones."""
        ...

    def wait(self) -> list[tuple[int, list[Trajectory]]]:
        """The groups that were completed and not returned yet: their numbers, and their episodes
        in the order of their jobs, in the order in which they were completed. Waits until there is
        one. Episodes that were lost to infrastructure are returned as lost."""
        ...

    def poll(self) -> list[tuple[int, list[Trajectory]]]:
        """What `wait` returns, without waiting: nothing, if no group was completed."""
        ...

    def cancel(self) -> None:
        """Give up all groups that were started and not returned."""
        ...
