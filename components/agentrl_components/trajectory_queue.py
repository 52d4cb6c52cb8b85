"""The trajectory queue: whole iterations of episodes, from the process that plays to the one that
learns, through the store.

An iteration is put once and stays until a checkpoint covers it, so either side may die and come
back: what was played is not played again, and what was learnt from is learnt from again, to the
same weights.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components import layout, trajectory_codec
from agentrl_components.store import Store
from agentrl_components.trajectory import Trajectory


class TrajectoryQueue:
    """Episodes by iteration."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, number: int, episodes: Sequence[Trajectory]) -> None:
        """Hand over the episodes of iteration `number`."""
        self._store.put(layout.trajectories(number), trajectory_codec.encode(episodes))

    def has(self, number: int) -> bool:
        """Whether iteration `number` was put and not forgotten."""
        return self._store.exists(layout.trajectories(number))

    def take(self, number: int) -> Sequence[Trajectory]:
        """The episodes of iteration `number`; they stay. Raises `StoreError` where there are
        none."""
        key = layout.trajectories(number)
        return trajectory_codec.decode(self._store.get(key), key)

    def forget_before(self, number: int) -> None:
        """Drop iterations that a checkpoint covers."""
        for key in list(self._store.list(layout.TRAJECTORIES)):
            if key < layout.trajectories(number):
                self._store.delete(key)
