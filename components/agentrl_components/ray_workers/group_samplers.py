"""Groups of episodes on the samplers of a run, while the driver does something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentrl_components.errors import WorkersLostError
from agentrl_components.ray_workers.calls import ready_ones, results
from agentrl_components.ray_workers.samplers import REPLACEMENTS, RaySamplers
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory


@dataclass(slots=True)
class _Group:
    """A group that is being played."""

    number: int
    jobs: Sequence[Job]
    rules: Rules
    oldest: int
    """The first version that may play it."""
    place: int
    """Index of its sampler."""
    actor: Any = None
    """The sampler that plays it there."""
    attempts: int = 0
    """How often its sampler has died."""


class RayGroupSamplers:
    """Implements `streaming.samplers.StreamingSamplers`: one call of an actor for each group.

    A group goes to the sampler with the fewest episodes under way, and stays there. If the sampler
    dies, it is replaced, and its groups are played again."""

    def __init__(self, samplers: RaySamplers) -> None:
        self._samplers = samplers
        self._calls: dict[Any, _Group] = {}

    def start(self, number: int, jobs: Sequence[Job], rules: Rules) -> None:
        """As `StreamingSamplers.start`."""
        least = self.loads.index(min(self.loads))
        self._call(_Group(number, jobs, rules, self._samplers.version, least))

    def wait(self) -> list[tuple[int, list[Trajectory]]]:
        """As `StreamingSamplers.wait`. Raises `WorkersLostError` if a group killed its samplers."""
        ended: list[tuple[int, list[Trajectory]]] = []
        while not ended and self._calls:
            for call in ready_ones(list(self._calls)):
                group = self._calls.pop(call)
                try:
                    (played,) = results([call])
                except WorkersLostError as death:
                    self._play_again(group, death)
                else:
                    ended.append((group.number, list(played)))
        return ended

    def cancel(self) -> None:
        """As `StreamingSamplers.cancel`."""
        import ray

        for call in self._calls:
            ray.cancel(call)
        self._calls.clear()

    @property
    def loads(self) -> list[int]:
        """Episodes of the groups that each sampler plays, or has played and that were not returned
        yet."""
        loads = [0] * self._samplers.size
        for group in self._calls.values():
            loads[group.place] += len(group.jobs)
        return loads

    def _play_again(self, group: _Group, death: WorkersLostError) -> None:
        group.attempts += 1
        self._samplers.replace(group.place, group.actor, death)
        if group.attempts == REPLACEMENTS:
            raise self._samplers.given_up()
        self._call(group)

    def _call(self, group: _Group) -> None:
        group.actor = self._samplers.actors[group.place]
        self._calls[group.actor.play_group.remote(group.jobs, group.rules, group.oldest)] = group
