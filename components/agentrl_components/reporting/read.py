"""What the store of a run holds about it, read back for people.

Only what is shown is checked: what else stands in a record does not matter here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.evaluation.summary import Evaluated
from agentrl_components.reporting.transcript import Replay, replay
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.records import (
    State,
    Tracked,
    checked,
    known,
    read_state,
    read_tracked,
)
from agentrl_components.storage.store import Store
from agentrl_components.trajectory.codec import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All of it."""

    state: State
    iterations: Sequence[IterationRecord]
    """In order."""
    evaluations: Mapping[str, Evaluated]
    """By name."""
    before: Sequence[Replay]
    """Held-out episodes that were kept, of the evaluation before training."""
    after: Sequence[Replay]
    """Those of the evaluation after it."""
    tracked: Tracked


def read(store: Store) -> Records:
    """The records in `store`, as far as there are any. Raises `StoreError`, which names the key,
    where one is damaged. Those that a run which goes on removes meanwhile are left out."""
    evaluations = {}
    for key in store.list(keys.EVALUATIONS):
        name = key.removeprefix(keys.EVALUATIONS).removesuffix(".json")
        if key == keys.evaluation(name):
            evaluations[name] = checked(store, key, Evaluated)
    iterations = [known(store, key, IterationRecord) for key in store.list(keys.ITERATIONS)]
    return Records(
        state=read_state(store),
        iterations=[one for one in iterations if one is not None],
        evaluations=evaluations,
        before=_replays(store, keys.episodes("before")),
        after=_replays(store, keys.episodes("after")),
        tracked=read_tracked(store),
    )


def _replays(store: Store, key: str) -> list[Replay]:
    return [replay(one) for one in decode(store.get(key), key)] if store.exists(key) else []
