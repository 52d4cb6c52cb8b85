"""What an iteration leaves behind for decisions about the horizon."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationRecord:
    """One iteration in numbers. None: not measured, as when nothing was left to train on."""

    iteration: int
    """Of the whole run, from 0."""
    phase: int
    """It was played in, from 0."""
    max_turns: int
    """The horizon it was played at."""
    success: float
    """Share of its training episodes that were solved."""
    wellformed: float | None = None
    """Share of replies that held one valid action."""
    reward_std: float | None = None
    """Mean within-group standard deviation of the score."""
    turns_mean: float | None = None
    """Turns per episode."""
    capped: float | None = None
    """Share of episodes that ended at the horizon."""
    entropy: float | None = None
    """Nats per sampled token."""
    grad_norm: float | None = None
    """Before clipping, the mean over the iteration's optimizer steps."""
    mismatch_kl: float | None = None
    """KL(sampler || trainer), nats per token."""
    heldout: float | None = None
    """Success on held-out tasks, with the weights after this iteration."""
    checkpointed: bool = False
    """The weights after this iteration can be returned to."""
    staleness: int = 0
    """Updates between the weights that played it and those that learnt from it."""
    restored: bool = False
    """It began from the best checkpoint, not from the weights of the iteration before."""


def records(told: Iterable[Mapping[str, Any]]) -> list[IterationRecord]:
    """A history as a checkpoint keeps it."""
    return [IterationRecord(**record) for record in told]


def since_restored(history: Sequence[IterationRecord]) -> Sequence[IterationRecord]:
    """The records of the weights that are being trained now: from the latest rollback on."""
    for place in range(len(history) - 1, -1, -1):
        if history[place].restored:
            return history[place:]
    return history


def best_checkpoint(history: Sequence[IterationRecord], window: int) -> IterationRecord | None:
    """The checkpoint to return to: best held-out success, else best mean training success.

    Held-out and training success are not compared with each other: where a checkpoint was
    evaluated, only evaluated ones are candidates. The training mean is over the `window` records up
    to the checkpoint. Of equals the later wins. A checkpoint that was once beaten stays beaten, so
    only the best need be kept. None: there is no checkpoint."""
    saved = [place for place, record in enumerate(history) if record.checkpointed]
    evaluated = [(h, place) for place in saved if (h := history[place].heldout) is not None]
    if evaluated:
        return history[max(evaluated)[1]]
    ranked = [
        (fmean(r.success for r in history[max(0, place + 1 - window) : place + 1]), place)
        for place in saved
    ]
    return history[max(ranked)[1]] if ranked else None
