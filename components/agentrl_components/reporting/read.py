"""Read the records of a run from its store, for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentrl_components.errors import StoreError
from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.reporting.transcript import Replay, replay
from agentrl_components.schedule.record import IterationRecord
from agentrl_components.storage import keys
from agentrl_components.storage.records import (
    RunState,
    TrackerRecord,
    find_record,
    load_record,
    read_state,
    read_tracker,
)
from agentrl_components.storage.store import Store
from agentrl_components.trajectory.codec import decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The records of a run."""

    state: RunState
    iterations: Sequence[IterationRecord]
    """Sorted by iteration."""
    evaluations: Mapping[str, HeldoutResult]
    """Keyed by name."""
    final: str
    """The name of the evaluation of the weights that training ended with."""
    before: Sequence[Replay]
    """Stored held-out episodes of the evaluation before training."""
    after: Sequence[Replay]
    """Stored held-out episodes of the evaluation `final`."""
    tracked: TrackerRecord


def read(store: Store) -> Records:
    """The records in `store` that exist. Skips those that a concurrent run deletes.

    Raises:
        StoreError: a record is damaged or missing; the message names its key.
    """
    evaluations = {}
    for key in store.list(keys.EVALUATIONS):
        name = keys.evaluation_name(key)
        if key == keys.evaluation(name):
            evaluations[name] = load_record(store, key, HeldoutResult)
    found = [find_record(store, key, IterationRecord) for key in iteration_keys(store)]
    iterations = [one for one in found if one is not None]
    final = keys.AFTER
    if iterations and final not in evaluations and _stopped(iterations[-1]):
        final = keys.evaluation_after(iterations[-1].iteration + 1)
    return Records(
        state=read_state(store),
        iterations=iterations,
        evaluations=evaluations,
        final=final,
        before=_replays(store, keys.episodes(keys.BEFORE)),
        after=_replays(store, keys.episodes(final)),
        tracked=read_tracker(store),
    )


def _stopped(last: IterationRecord) -> bool:
    """Whether an alarm ended the run after its `last` iteration."""
    return last.decision is not None and last.decision.action == "stop"


def iteration_keys(store: Store) -> list[str]:
    """The keys of the iteration records in `store`, in order.

    Raises:
        StoreError: a record is missing between two others, or the last ones that the run's state
            counts are missing.
    """
    for _ in range(2):  # a concurrent run may delete records while they are listed: look twice
        counted = read_state(store).iteration
        present = list(store.list(keys.ITERATIONS))
        known = {*present, *map(keys.iteration, range(counted))}
        missing = sorted(known - set(present)) or [
            expected
            for number, expected in enumerate(map(keys.iteration, range(len(present))))
            if present[number] != expected
        ]
        if not missing:
            return present
    last = present[-1] if present else ""
    why = f"{last} is there" if missing[0] < last else f"{keys.STATE} counts {counted} iterations"
    raise StoreError(
        f"{missing[0]}: in {store.url}: missing, although {why}; restore the file, or start a new "
        "run"
    )


def _replays(store: Store, key: str) -> list[Replay]:
    return [replay(one) for one in decode(store.get(key), key)] if store.exists(key) else []
