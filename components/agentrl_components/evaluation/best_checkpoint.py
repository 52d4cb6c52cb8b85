"""The best checkpoint of a run: the one that is registered, reported and never deleted."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.evaluation.summary import HeldoutResult
from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.schedule.record import Decision, IterationRecord
from agentrl_components.storage import checkpoint, keys
from agentrl_components.storage.records import find_record
from agentrl_components.storage.store import Store


def best_number(store: Store, history: Sequence[IterationRecord], window: int) -> int:
    """The number of the best checkpoint in `store`: the iterations that it covers.

    It is chosen as `schedule.history.best_checkpoint` says, but evaluations at the end of a phase
    count too, which are in the store and not in the history. So of the checkpoints that were
    evaluated the one with the best held-out success is the best; all evaluations have the same
    tasks and turn limits. One that lacks an environment, because it was down, has other tasks and
    does not count. Before the first evaluation it is the one with the best training success over
    `window` iterations. Where training has made none, it is the newest that `history` covers; 0 if
    there is none.

    Raises:
        StoreError: the record of an evaluation is damaged; the message names its key.
    """
    available = checkpoint.complete(store, newest=len(history))
    records = [
        _with_final_evaluation(store, one).model_copy(
            update={"checkpointed": one.checkpointed and one.iteration + 1 in available}
        )
        for one in history
    ]
    best = best_checkpoint(records, window)
    return best.iteration + 1 if best is not None else max(available, default=0)


def name_at_phase_end(decision: Decision, done: int, *, restored: bool = False) -> str:
    """The name of the evaluation after a phase that `decision` ended, `done` iterations into the
    run. `restored`: the last of them was followed by a rollback. The evaluation of the restored
    weights has a name of its own, since that of `evaluation.every` is of the discarded ones, and
    the record of the iteration must not get it."""
    if decision.action == "finish":
        return keys.AFTER
    return keys.evaluation_after(done, restored=restored)


def _with_final_evaluation(store: Store, record: IterationRecord) -> IterationRecord:
    """The record; if it is the last of a phase, with the success of the evaluation after it."""
    decision = record.decision
    if decision is None or not decision.ends_phase(record.phase):
        return record
    name = name_at_phase_end(decision, record.iteration + 1)
    found = find_record(store, keys.evaluation(name), HeldoutResult)
    if found is None:
        return record
    return record.model_copy(update=found.record_fields)
