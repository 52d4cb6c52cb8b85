"""Groups of episodes on the samplers of a run, while the driver does something else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentrl_components.ray_workers.calls.silence import SilenceWatch
from agentrl_components.ray_workers.calls.under_way import CallsUnderWay
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class _Group:
    """A group that is being played."""

    place: int
    """Index of its sampler."""
    episodes: int


class RayGroupSamplers:
    """Implements `streaming.samplers.StreamingSamplers`: one call of an actor for each group.

    A group goes to the sampler with the fewest episodes under way, and stays there. If the sampler
    dies, it is replaced, and its groups are played again."""

    def __init__(self, samplers: RaySamplers) -> None:
        self._samplers = samplers
        self._calls = CallsUnderWay(samplers, SilenceWatch(samplers.watch.silent_s))
        self._groups: dict[int, _Group] = {}
        """Groups that were not returned yet, by number."""

    def start(self, number: int, jobs: Sequence[Job], rules: Rules) -> None:
        """As `StreamingSamplers.start`."""
        place = self.loads.index(min(self.loads))
        self._calls.start(number, place, "play_group", jobs, rules, self._samplers.version)
        self._groups[number] = _Group(place, len(jobs))

    def wait(self) -> list[tuple[int, list[Trajectory]]]:
        """As `StreamingSamplers.wait`. Raises `WorkersLostError` if a group killed its samplers."""
        return self._returned(self._calls.wait())

    def poll(self) -> list[tuple[int, list[Trajectory]]]:
        """As `StreamingSamplers.poll`. Raises what `wait` raises."""
        return self._returned(self._calls.poll())

    def cancel(self) -> None:
        """As `StreamingSamplers.cancel`."""
        self._calls.cancel()
        self._groups.clear()

    @property
    def loads(self) -> list[int]:
        """Episodes of the groups that each sampler plays, or has played and that were not returned
        yet."""
        loads = [0] * self._samplers.size
        for group in self._groups.values():
            loads[group.place] += group.episodes
        return loads

    def _returned(
        self, ended: list[tuple[int, list[Trajectory]]]
    ) -> list[tuple[int, list[Trajectory]]]:
        for number, _ in ended:
            del self._groups[number]
        return ended
