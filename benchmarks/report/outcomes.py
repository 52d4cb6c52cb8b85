"""Results of `horizon.py`, and their output as a table, JSON and a figure."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path

import click
import numpy as np
from matplotlib.figure import Figure
from report.machine import machine
from report.seeds import mean_interval, paired_interval
from rich.table import Table

from agentrl_components.evaluation.intervals import Interval

COLOURS = ("#2f7fd1", "#8a93a0", "#3d9a6d", "#d9622b", "#8d5fb8")
"""Of the arms in a figure, the staged one first. They repeat if there are more arms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A schedule: horizons, and the share of all turns at which each of them ends."""

    name: str
    horizons: tuple[int, ...]
    ends: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one arm with one seed."""

    arm: str
    seed: int
    success: float
    low: float
    high: float
    """Held-out success `success` with its 95 % interval over tasks, `low` to `high`."""
    n: int
    before: float
    """Held-out success after the warm start."""
    random: float
    """Held-out success of a random policy."""
    turns: int
    """Environment turns used in training."""
    iterations: int
    cpu_seconds: float
    curve: tuple[tuple[int, float], ...]
    """Turns used so far and training success, by iteration."""


def successes(outcomes: Sequence[Outcome], arm: str) -> list[float]:
    """Held-out success of an arm, by seed."""
    return [one.success for one in outcomes if one.arm == arm]


def difference(outcomes: Sequence[Outcome], arm: str) -> Interval:
    """Success of the staged arm minus that of `arm`, paired by seed."""
    return paired_interval(successes(outcomes, "staged"), successes(outcomes, arm))


def table(arms: Sequence[Arm], outcomes: Sequence[Outcome]) -> Table:
    """Table of the results for the terminal."""
    shown = Table(title="held-out success (%) at equal environment turns")
    for column in ("arm", "horizon", "seeds", "mean [95 %]", "staged minus arm [95 %]", "CPU s"):
        shown.add_column(column)
    for arm in arms:
        mean = mean_interval(successes(outcomes, arm.name))
        ahead = "" if arm.name == "staged" else percent(difference(outcomes, arm.name))
        cpu = [one.cpu_seconds for one in outcomes if one.arm == arm.name]
        shown.add_row(
            arm.name,
            " ".join(map(str, arm.horizons)),
            " ".join(f"{100 * one:.1f}" for one in successes(outcomes, arm.name)),
            percent(mean),
            ahead,
            f"{np.mean(cpu):.0f} ({min(cpu):.0f}-{max(cpu):.0f})",
        )
    return shown


def labelled(arm: Arm) -> str:
    """Label of an arm in a figure."""
    horizons = ", ".join(map(str, arm.horizons))
    return f"staged {horizons}" if len(arm.horizons) > 1 else arm.name


def percent(interval: Interval) -> str:
    """An interval formatted in percent."""
    return f"{100 * interval.estimate:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def write(path: Path, arms: Sequence[Arm], outcomes: Sequence[Outcome], turns: int) -> None:
    """Write the results as JSON, and a figure to the same path with the suffix .png."""
    summary = {
        arm.name: {
            "horizons": arm.horizons,
            "mean": asdict(mean_interval(successes(outcomes, arm.name))),
            "staged_ahead": asdict(difference(outcomes, arm.name)),
            "cpu_seconds": [one.cpu_seconds for one in outcomes if one.arm == arm.name],
        }
        for arm in arms
    }
    written = {
        **machine(),
        "turns": turns,
        "summary": summary,
        "outcomes": [asdict(one) for one in outcomes],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(written, indent=1) + "\n")
    path.with_suffix(".png").write_bytes(drawn(arms, outcomes))
    click.echo(f"written: {path} and {path.with_suffix('.png')}")


def drawn(arms: Sequence[Arm], outcomes: Sequence[Outcome]) -> bytes:
    """PNG with two plots: success by seed with the interval of the mean, and success over turns."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    for place, (arm, colour) in enumerate(zip(arms, cycle(COLOURS), strict=False)):
        found = successes(outcomes, arm.name)
        mean = mean_interval(found)
        left.plot([place] * len(found), found, "o", color=colour, alpha=0.4)
        left.plot([place + 0.2] * 2, [mean.low, mean.high], color=colour, linewidth=2)
        left.plot(place + 0.2, mean.estimate, "D", color=colour)
        for one in outcomes:
            if one.arm == arm.name:
                turns, success = np.array(one.curve).T
                window = min(10, len(success))
                smooth = np.convolve(success, np.ones(window) / window, "valid")
                first = one.seed == 0
                right.plot(
                    turns[window - 1 :],
                    smooth,
                    color=colour,
                    alpha=0.6,
                    linewidth=1,
                    label=labelled(arm) if first else None,
                )
    left.set_xticks(range(len(arms)), [labelled(arm).replace(" ", "\n", 1) for arm in arms])
    left.set_xlim(-0.4, len(arms) - 0.4)
    left.set_ylabel("held-out success")
    right.set_xlabel("environment turns")
    right.set_ylabel("training success at the arm's own horizon")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
