"""Groups under way, and completed groups that wait for the learner, within a bound."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.rollout.episode import Job, Rules
from agentrl_components.streaming.samplers import StreamingSamplers
from agentrl_components.streaming.selection import select
from agentrl_components.trajectory.record import Trajectory


class GroupStream:
    """Plays groups ahead of the learner, at most `max_staleness` updates.

    Every group that is started is learnt from once, or dropped. No token of a group is older than
    `max_staleness` updates when the group is learnt from, provided that weights are handed over
    after each update and before the next group is started."""

    def __init__(self, samplers: StreamingSamplers, *, size: int, max_staleness: int) -> None:
        """`size` is the number of groups of an update."""
        self._samplers, self._size, self._max_staleness = samplers, size, max_staleness
        self._update = 0
        """The next update, counted from the start of the stream."""
        self._started = 0
        """Groups that were started so far."""
        self._last_update: dict[int, int] = {}
        """The last update that may learn from a group, for those that were started and neither
        learnt from nor dropped."""
        self._completed: dict[int, list[Trajectory]] = {}
        """The completed ones of them, in order of completion."""

    @property
    def bound(self) -> int:
        """The most groups that may be under way or wait."""
        return (self._max_staleness + 1) * self._size

    @property
    def waiting(self) -> int:
        """Completed groups that wait for the learner."""
        return len(self._completed)

    @property
    def under_way(self) -> int:
        """Groups that are being played."""
        return len(self._last_update) - len(self._completed)

    def start(self, jobs: Sequence[Job], rules: Rules) -> None:
        """Start to play a group. Raises `ValueError` if that would exceed the bound."""
        if len(self._last_update) >= self.bound:
            raise ValueError(f"{self.bound} groups are under way or wait already")
        self._samplers.start(self._started, jobs, rules)
        self._last_update[self._started] = self._update + self._max_staleness
        self._started += 1

    def poll(self) -> None:
        """Take note of the groups that were completed: then `waiting` and `under_way` are those of
        now, and the samplers know which of them are idle."""
        self._completed.update(self._samplers.poll())

    def take(self) -> list[list[Trajectory]]:
        """The groups of the next update, each with its episodes, in the order in which they were
        started. Waits until there are enough. Raises `ValueError` if too few were started."""
        if len(self._last_update) < self._size:
            raise ValueError(f"only {len(self._last_update)} of {self._size} groups were started")
        self.poll()
        while (chosen := self._chosen()) is None:
            self._completed.update(self._samplers.wait())
        self._update += 1
        for number in chosen:
            del self._last_update[number]
        return [self._completed.pop(number) for number in sorted(chosen)]

    def drop(self) -> int:
        """Give up all groups that are under way or wait. Returns how many there were."""
        dropped = len(self._last_update)
        self._samplers.cancel()
        self._last_update.clear()
        self._completed.clear()
        return dropped

    def _chosen(self) -> list[int] | None:
        return select(list(self._completed), self._last_update, self._update, self._size)
