"""Questions about the records of a run so far."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from agentrl_components.schedule.record import IterationRecord


def silent_at_the_end(history: Sequence[IterationRecord]) -> int:
    """How many of the last iterations in a row were silent."""
    return _in_a_row([one.silent for one in history])


def skipped_at_the_end(history: Sequence[IterationRecord]) -> int:
    """In how many of the last iterations in a row all optimizer steps were skipped."""
    return _in_a_row([one.all_skipped for one in history])


def _in_a_row(found: Sequence[bool]) -> int:
    """How many of the last ones are true."""
    return next((n for n, one in enumerate(reversed(found)) if not one), len(found))


def silent_message(iterations: str) -> str:
    """What `iterations` without an update mean, and what helps."""
    return (
        f"{iterations} iterations changed no weights: in each of their groups all episodes "
        "earned the same reward (train/silent_groups). Where nothing is solved, larger groups "
        "(rollout.groupSize), a warm start, a shorter horizon or easier tasks help; where "
        "everything is solved, harder tasks"
    )


def since_rollback(history: Sequence[IterationRecord]) -> Sequence[IterationRecord]:
    """The records of the weights that are in training now: from the latest rollback on."""
    for index in range(len(history) - 1, -1, -1):
        if history[index].restored:
            return history[index:]
    return history


def comparable(
    history: Sequence[IterationRecord], limit: int | None = None, *, all_phases: bool = False
) -> Sequence[IterationRecord]:
    """The records whose success can be compared with that of the last one, in order: those of the
    same weights, from the latest rollback on, of the same phase, since a longer horizon changes
    what success measures, and with episodes of the same environments. With an environment less,
    which was down, success rises or falls as that one is harder or easier than the others. Only
    the last `limit` of them, if it is given; with `all_phases` those of earlier phases too."""
    found: list[IterationRecord] = []
    for record in reversed(history):
        if len(found) == limit or not (all_phases or record.phase == history[-1].phase):
            break
        if record.absent == history[-1].absent:
            found.append(record)
        if record.restored:
            break
    return found[::-1]


def best_checkpoint(history: Sequence[IterationRecord], window: int) -> IterationRecord | None:
    """The checkpoint to roll back to: best held-out success, else best mean training success.

    Held-out and training success are never compared with each other: if any checkpoint was
    evaluated, only evaluated ones are candidates. Evaluations of `evaluation.every` count, those
    at the end of a phase are not in the history (`evaluation.best_checkpoint` adds them). The
    training mean is over the last `window` records up to the checkpoint that are `comparable` with
    its own, those of the phase before among them: a mean of few records is the best by chance.
    Checkpoints of iterations without an environment, which was down, are candidates only if there
    are no others. Of candidates with equal success the one with the higher mean score wins, and of
    equal ones the later. A checkpoint that was beaten once stays beaten, so only the best has to be
    kept. None: there is no checkpoint."""
    saved = [index for index, record in enumerate(history) if record.checkpointed]
    ranked = [
        (
            True,
            success,
            success if (score := history[index].heldout_score) is None else score,
            index,
        )
        for index in saved
        if (success := history[index].heldout) is not None
    ]
    if not ranked:
        recent = (
            (index, comparable(history[: index + 1], window, all_phases=True)) for index in saved
        )
        ranked = [
            (
                not history[index].absent,
                fmean(r.success for r in some),
                fmean(r.score for r in some),
                index,
            )
            for index, some in recent
        ]
    return history[max(ranked)[-1]] if ranked else None
