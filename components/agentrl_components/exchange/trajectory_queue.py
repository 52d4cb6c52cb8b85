"""The trajectory queue: whole iterations of episodes, from whoever plays to whoever learns, through
the store.

An iteration is put once and stays until old checkpoints cover it, so either side may die and come
back: what was played is not played again, and what was learnt from is learnt from again, to the
same weights. It is kept by the policy that played it, too: what was played ahead and turned out to
be for nothing is never mistaken for what is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.storage import keys
from agentrl_components.storage.store import Store
from agentrl_components.trajectory import codec
from agentrl_components.trajectory.record import Trajectory


class TrajectoryQueue:
    """Episodes by iteration and policy, both numbered as `lag` numbers them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, number: int, policy: int, episodes: Sequence[Trajectory]) -> None:
        """Hand over the episodes of iteration `number`, played by `policy`."""
        self._store.put(keys.trajectories(number, policy), codec.encode(episodes))

    def has(self, number: int, policy: int) -> bool:
        """Whether iteration `number` was put, played by `policy`, and not forgotten."""
        return self._store.exists(keys.trajectories(number, policy))

    def take(self, number: int, policy: int) -> Sequence[Trajectory]:
        """The episodes of iteration `number`, played by `policy`; they stay. Raises `StoreError`
        where there are none."""
        key = keys.trajectories(number, policy)
        return codec.decode(self._store.get(key), key)

    def forget(self, covered: int, number: int, policy: int) -> None:
        """Drop iterations before `covered`, and what was played for nothing: iterations from
        `number` on by a policy before the one that plays it."""
        for key in list(self._store.list(keys.TRAJECTORIES)):
            there, by = keys.played(key)
            if there < covered or (there >= number and by < policy):
                self._store.delete(key)
