"""Trajectory queue: the episodes of whole iterations, from the playing process to the learning
process, through the store.

An iteration is written once and kept until checkpoints no longer need it, so either process may be
killed and restarted: nothing is played twice, and learning from the same episodes again gives the
same weights. The key contains the policy that played it, so episodes that were played ahead in vain
are never mistaken for the ones that are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.errors import StoreError
from agentrl_components.storage import keys
from agentrl_components.storage.store import Store
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.record import Trajectory


class TrajectoryQueue:
    """Episodes by iteration and policy, numbered as in `schedule.staleness`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, number: int, policy: int, episodes: Sequence[Trajectory]) -> None:
        """Write the episodes of iteration `number`, played by `policy`. Episodes that are there
        already stay: they are the same except for their times.

        Raises:
            StoreError: others are there.
        """
        try:
            self._store.put(keys.trajectories(number, policy), codec.encode(episodes))
        except StoreError:
            if not self.has(number, policy):
                raise
            if _without_times(self.take(number, policy)) != _without_times(episodes):
                raise

    def has(self, number: int, policy: int) -> bool:
        """Whether the episodes of iteration `number`, played by `policy`, are there."""
        return self._store.exists(keys.trajectories(number, policy))

    def take(self, number: int, policy: int) -> Sequence[Trajectory]:
        """The episodes of iteration `number`, played by `policy`; they stay in the queue. Raises
        `StoreError` if there are none."""
        key = keys.trajectories(number, policy)
        return codec.decode(self._store.get(key), key)

    def drop(self, number: int, policy: int) -> None:
        """Delete the episodes of iteration `number`, played by `policy`, if there are any."""
        self._store.delete(keys.trajectories(number, policy))

    def forget(self, covered: int, number: int, policy: int) -> None:
        """Delete iterations before `covered`, and iterations from `number` on that were played by
        a policy older than `policy`: those were played ahead in vain."""
        for key in list(self._store.list(keys.TRAJECTORIES)):
            there, by = keys.iteration_and_policy(key)
            if there < covered or (there >= number and by < policy):
                self._store.delete(key)

    def forget_policies_after(self, policy: int) -> None:
        """Delete what was played by policies after `policy`. The run goes on from there with other
        weights or another schedule, and its policies get the same numbers."""
        for key in list(self._store.list(keys.TRAJECTORIES)):
            _, by = keys.iteration_and_policy(key)
            if by > policy:
                self._store.delete(key)


def _without_times(episodes: Sequence[Trajectory]) -> bytes:
    return codec.encode([episode.without_times() for episode in episodes])
