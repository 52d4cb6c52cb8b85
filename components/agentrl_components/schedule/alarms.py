"""Alarms: signs of training collapse, detected in the history.

An alarm fires if its signal is beyond its bound over the alarm's whole last `window`, in both mean
and median: a single spike is not a collapse, and one good iteration does not hide a collapse. With
fewer records than a window, nothing fires. Records before a rollback belong to other weights and
are ignored. Success is compared within a phase only, because a longer horizon changes what it
measures, and between iterations with the same environments only, of which one may be down. In a
real collapse, success falls while episodes are pinned at the turn limit, gradient norms spike and
entropy goes to 0 (AgentGym-RL, arXiv 2509.08755, figure 7); the reward deviation within groups
drops first (RAGEN, arXiv 2504.20073).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite
from statistics import fmean, median

from agentrl_components.schedule.history import comparable, since_rollback
from agentrl_components.schedule.record import FiredAlarm, IterationRecord, Signal
from agentrl_components.spec.fields.horizon import Alarm

FALLING = 0.02
"""Success counts as falling if it is this much below the previous window: less is noise."""


def fired_alarms(
    alarms: Sequence[Alarm], history: Sequence[IterationRecord]
) -> tuple[FiredAlarm, ...]:
    """The alarms that fire after the last record, in the manifest's order."""
    current = since_rollback(history)
    compared = comparable(current)
    fired: list[FiredAlarm] = []
    for index, alarm in enumerate(alarms):
        if len(current) < alarm.window:
            continue
        for signal, value, bound, message in _findings(alarm, current, compared):
            fired.append(
                FiredAlarm(
                    alarm=index,
                    signal=signal,
                    action=alarm.action,
                    value=value,
                    bound=bound,
                    message=message,
                )
            )
    return tuple(fired)


Finding = tuple[Signal, float, float, str]
"""Signal, value, bound, message."""


def _findings(
    alarm: Alarm, history: Sequence[IterationRecord], compared: Sequence[IterationRecord]
) -> Iterator[Finding]:
    """The findings of one alarm, at most one per signal. `compared`: the records whose success is
    compared."""
    last = history[-alarm.window :]
    yield from _pinned(alarm, compared)
    yield from _dropped(alarm, compared)
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
    # What is not finite, such as the norm of a broken gradient, is beyond every bound.
    broken = inf if above else -inf
    measured = [value if isfinite(value) else broken for value in values if value is not None]
    # A window without a measurement in most of its iterations is no evidence.
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
    if alarm.reward_drop is None or len(history) < alarm.window:
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
