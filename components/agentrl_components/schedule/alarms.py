"""Signs of collapse, read from the history.

A signal rings when it is past its bound over the alarm's whole last `window`: both its mean and its
median, so that one spike is not yet a collapse and a collapse is not hidden by one good iteration.
Fewer records than a window never ring. Records before a rollback are those of other weights and do
not count. What the signals look like in a real collapse: success falls while episodes are pinned at
the cap, gradient norms spike, entropy goes to 0 (AgentGym-RL, arXiv 2509.08755, figure 7);
within-group reward deviation falls off a cliff first (RAGEN, arXiv 2504.20073).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan
from statistics import fmean, median
from typing import Literal

from agentrl_components.schedule.history import IterationRecord, since_restored
from agentrl_components.spec.fields.horizon import Alarm

Signal = Literal[
    "turns_pinned",
    "reward_drop",
    "wellformed_below",
    "entropy_below",
    "grad_norm_above",
    "reward_std_below",
    "mismatch_kl_above",
]

FALLING = 0.02
"""How much lower than the window before success must be to count as falling: less is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """An alarm that rings now."""

    alarm: int
    """Its place in `horizon.alarms`."""
    signal: Signal
    action: Literal["record", "hold", "stop", "rollback"]
    value: float
    """The mean over the window; for `reward_drop` the share that success has lost."""
    bound: float
    message: str
    """A sentence for people, with the numbers."""


def ringing(alarms: Sequence[Alarm], history: Sequence[IterationRecord]) -> tuple[Ring, ...]:
    """The alarms that ring after the last record, in the manifest's order."""
    current = since_restored(history)
    rings: list[Ring] = []
    for place, alarm in enumerate(alarms):
        if len(current) < alarm.window:
            continue
        for signal, value, bound, message in _findings(alarm, current):
            rings.append(
                Ring(
                    alarm=place,
                    signal=signal,
                    action=alarm.action,
                    value=value,
                    bound=bound,
                    message=message,
                )
            )
    return tuple(rings)


Finding = tuple[Signal, float, float, str]


def _findings(alarm: Alarm, history: Sequence[IterationRecord]) -> Iterator[Finding]:
    """What one alarm finds, at most one finding per signal."""
    last = history[-alarm.window :]
    yield from _pinned(alarm, history)
    yield from _dropped(alarm, history)
    yield from _bounded(
        "wellformed_below",
        "well-formed replies",
        [r.wellformed for r in last],
        alarm.wellformed_below,
    )
    yield from _bounded(
        "entropy_below", "entropy per token", [r.entropy for r in last], alarm.entropy_below
    )
    yield from _bounded(
        "grad_norm_above", "gradient norm", [r.grad_norm for r in last], alarm.grad_norm_above
    )
    yield from _bounded(
        "reward_std_below",
        "reward deviation within groups",
        [r.reward_std for r in last],
        alarm.reward_std_below,
    )
    yield from _bounded(
        "mismatch_kl_above",
        "KL(sampler || trainer) per token",
        [r.mismatch_kl for r in last],
        alarm.mismatch_kl_above,
    )


def _bounded(
    signal: Signal, name: str, values: Sequence[float | None], bound: float | None
) -> Iterator[Finding]:
    above = signal.endswith("_above")
    # A number that is not one, such as the norm of a broken gradient, is past every bound.
    broken = inf if above else -inf
    measured = [broken if isnan(value) else value for value in values if value is not None]
    # A window in which most iterations measured nothing is no evidence.
    if bound is None or 2 * len(measured) <= len(values):
        return
    mean, middle = fmean(measured), median(measured)
    word = "above" if above else "below"
    if min(mean, middle) > bound if above else max(mean, middle) < bound:
        yield (
            signal,
            mean,
            bound,
            f"{name} averaged {mean:.4g} over the last {len(values)} iterations, "
            f"{word} the bound of {bound:.4g}",
        )


def _pinned(alarm: Alarm, history: Sequence[IterationRecord]) -> Iterator[Finding]:
    window, bound = alarm.window, alarm.turns_pinned
    last, before = history[-window:], history[-2 * window : -window]
    capped = [record.capped for record in last if record.capped is not None]
    if bound is None or len(before) < window or 2 * len(capped) <= window:
        return
    share = fmean(capped)
    now, then = fmean(r.success for r in last), fmean(r.success for r in before)
    if share >= bound and median(capped) >= bound and then - now >= FALLING:
        yield (
            "turns_pinned",
            share,
            bound,
            f"{share:.1%} of episodes ended at the cap over the last {window} iterations (bound "
            f"{bound:.1%}) while success fell from {then:.1%} to {now:.1%}",
        )


def _dropped(alarm: Alarm, history: Sequence[IterationRecord]) -> Iterator[Finding]:
    if alarm.reward_drop is None:
        return
    means = moving_means([record.success for record in history], alarm.window)
    best, now = max(means), means[-1]
    limit = best * (1 - alarm.reward_drop)
    recent = median(record.success for record in history[-alarm.window :])
    if best > 0 and now <= limit and recent <= limit:
        lost = 1 - now / best
        yield (
            "reward_drop",
            lost,
            alarm.reward_drop,
            f"success over {alarm.window} iterations fell from {best:.1%} at its best to "
            f"{now:.1%}, a loss of {lost:.1%} (bound {alarm.reward_drop:.1%})",
        )


def moving_means(values: Sequence[float], window: int) -> list[float]:
    """The mean of every full window, oldest first; empty where there is none."""
    return [fmean(values[end - window : end]) for end in range(window, len(values) + 1)]
