"""Plot the learning curve of a run: training and held-out success over the phases.

Where the mean score differs from success, as with partial rewards, it is drawn too.

Training success is measured at the horizon of its phase, held-out success always at the horizon of
the evaluation. The band of the random policy is the 95 % interval of its held-out success. The
module does not use matplotlib's global state (pyplot), so figures can be drawn in any thread.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from agentrl_components.spec.turn_limits import range_of

if TYPE_CHECKING:
    from agentrl_components.evaluation.summary import HeldoutResult
    from agentrl_components.reporting.schema import PhaseSummary, Report
    from agentrl_components.schedule.record import IterationRecord

INK = "#1f2733"
"""Colour of lines and texts. In an SVG it is replaced by `currentColor`."""
QUIET = "#8a93a0"
LEARNING = "#2f7fd1"
HELDOUT = "#d9622b"
OTHERS = ("#2a9d8f", "#8e5bd0", "#c9a227", "#c2477f", "#6b7a3a")
"""Colours of the environments, if there are several."""

_PERCENT = FuncFormatter(lambda value, _: f"{value * 100:.0f} %")


def draw(report: Report) -> Figure:
    """The figure: success at the top; turns, entropy and well-formed replies below."""
    report = report.model_copy(update={"training": tuple(map(_finite, report.training))})
    figure = Figure(figsize=(10, 6.6), facecolor="white")
    # Fixed margins, since a layout engine takes as long as drawing.
    grid = figure.add_gridspec(
        *(2, 3),
        height_ratios=(2.7, 1),
        left=0.067,
        right=0.988,
        top=0.86,
        bottom=0.04,
        hspace=0.3,
        wspace=0.2,
    )
    top = figure.add_subplot(grid[0, :])
    below = [figure.add_subplot(grid[1, column]) for column in range(3)]
    span = max(len(report.training), 1)
    for axes in (top, *below):
        _style(axes, span)
        _shade_phases(axes, report.phases, span, labelled=axes is top)
    _plot_success(top, report, span)
    steps = report.training
    limits = _limits(report)
    _plot_metric(
        below[0], steps, [step.turns for step in steps], "Turns per episode; dashed: maximum"
    )
    _plot_horizon(below[0], steps, limits)
    _plot_metric(
        below[1], steps, [step.entropy for step in steps], "Entropy, nats per sampled token"
    )
    _plot_metric(below[2], steps, [step.wellformed for step in steps], "Well-formed replies")
    below[2].yaxis.set_major_formatter(_PERCENT)
    below[2].set_ylim(0, 1.04)
    for axes, maximum in zip(below, _maxima(steps, limits), strict=False):
        axes.set_ylim(0, 1.08 * maximum)
    top.set_title(report.headline, loc="left", color=INK, fontsize=13, fontweight="bold", pad=50)
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG, 1500 pixels wide."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150, metadata={"Software": "AgentRL"})
    return file.getvalue()


def svg(figure: Figure) -> str:
    """The figure as an <svg> element with transparent background and `currentColor` as ink."""
    file = io.StringIO()
    no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(file, format="svg", facecolor="none", metadata=no_metadata)
    text = file.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def smooth(values: Sequence[float | None], window: int) -> NDArray[np.float64]:
    """Centred moving average of `window` values, skipping missing ones; NaN if all are missing."""
    known = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    there = np.isfinite(known)
    sums = np.concatenate([[0.0], np.cumsum(np.where(there, known, 0.0))])
    counts = np.concatenate([[0], np.cumsum(there)])
    places = np.arange(len(known))
    low = np.maximum(places - window // 2, 0)
    high = np.minimum(places + window // 2 + 1, len(known))
    n = counts[high] - counts[low]
    return np.where(n > 0, (sums[high] - sums[low]) / np.maximum(n, 1), np.nan)


def _smoothed(
    steps: Sequence[IterationRecord], values: Sequence[float | None]
) -> NDArray[np.float64]:
    """`values` smoothed within each phase, since the horizon changes the measured quantity."""
    window = max(5, len(steps) // 15)
    changes = [place for place, (a, b) in enumerate(pairwise(steps), 1) if a.phase != b.phase]
    starts = [0, *changes]
    parts = [
        smooth(values[start:end], window)
        for start, end in zip(starts, [*starts[1:], len(steps)], strict=True)
    ]
    return np.concatenate([np.empty(0), *parts])


def _finite(record: IterationRecord) -> IterationRecord:
    """The record without metrics that are not finite: they cannot be drawn."""
    finite = {
        name: value if value is not None and isfinite(value) else None
        for name, value in record.metrics.items()
    }
    return record.model_copy(update={"metrics": finite})


def _style(axes: Axes, span: int) -> None:
    axes.set_facecolor("none")
    axes.set_xlim(-0.015 * span, span * 1.015)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axes.tick_params(colors=INK, length=0, labelsize=9)
    axes.grid(axis="y", color=QUIET, alpha=0.22, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)


def _shade_phases(axes: Axes, phases: Sequence[PhaseSummary], span: int, *, labelled: bool) -> None:
    """Shade every phase that has iterations, each darker than the previous one."""
    played = [phase for phase in phases if phase.iterations]
    start = 0
    for place, phase in enumerate(played):
        end = start + phase.iterations
        shade = 0.03 + 0.09 * place / max(len(played) - 1, 1)
        axes.axvspan(start, end, color=LEARNING, alpha=shade, linewidth=0, zorder=0)
        if labelled and phase.iterations >= 0.05 * span:
            turns = f"{phase.turns} turn{'' if phase.turns == '1' else 's'}"
            text = f"horizon: {turns}" if phase.iterations > 0.15 * span else phase.turns
            axes.annotate(
                text,
                ((start + end) / 2, 1),
                (0, 4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="bottom",
                color=INK,
                fontsize=9.5,
            )
        start = end


def _plot_success(axes: Axes, report: Report, span: int) -> None:
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("iteration", color=INK, fontsize=9.5)
    axes.set_ylabel("success", color=INK, fontsize=9.5)
    if (random := report.heldout.random) is not None:
        axes.axhspan(random.low, random.high, color=QUIET, alpha=0.22, linewidth=0)
        axes.axhline(
            random.success, color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)), label="random policy"
        )
    if report.training:
        _plot_training(axes, report)
    if points := _heldout_points(report):
        _plot_heldout(axes, points)
    _annotate(axes, report, span)
    if drawn := axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.008, 1.07),
            borderaxespad=0,
            ncols=3 if len(drawn) <= 6 else 4,  # two rows; a third would touch the title
            frameon=False,
            fontsize=9.5,
            labelcolor=INK,
            handlelength=1.6,
        )


def _plot_training(axes: Axes, report: Report) -> None:
    """Plot training success, the mean score if it differs, and the success of each environment."""
    steps = report.training
    x = [step.iteration + 0.5 for step in steps]
    success = [step.metrics.get("train/success") for step in steps]
    raw = [np.nan if value is None else value for value in success]
    axes.plot(x, raw, color=LEARNING, alpha=0.35, linewidth=0.9)
    axes.plot(
        x,
        _smoothed(steps, success),
        color=LEARNING,
        linewidth=2.2,
        label="training, at the phase's horizon",
    )
    if any(step.score != step.success for step in steps):
        axes.plot(
            x,
            _smoothed(steps, [step.metrics.get("train/score") for step in steps]),
            color=LEARNING,
            linewidth=1.6,
            linestyle=(0, (2, 1.5)),
            label="training, mean score",
        )
        axes.set_ylabel("success, mean score", color=INK, fontsize=9.5)
    for number, name in enumerate(report.environments if len(report.environments) > 1 else ()):
        of_one = [step.metrics.get(f"train/{name}/success") for step in steps]
        color = OTHERS[number % len(OTHERS)]
        axes.plot(x, _smoothed(steps, of_one), color=color, linewidth=1.2, label=name)


def _plot_heldout(axes: Axes, points: Sequence[tuple[int, HeldoutResult]]) -> None:
    """Plot held-out success with its intervals, and the mean score where it differs. Evaluations
    that lack an environment have other tasks, and a mark of their own."""
    limits = {t for _, one in points for t in one.turn_limits.values() or [one.max_turns]}
    marks: dict[str, Any] = {"color": HELDOUT, "markersize": 6.5, "clip_on": False, "zorder": 5}
    partial = [(x, found.success) for x, found in points if found.missing]
    points = [(x, found) for x, found in points if not found.missing]
    if partial:
        label = "held-out, an environment was down"
        axes.plot(*zip(*partial, strict=True), "x", label=label, **marks)
    if not points:
        return
    axes.errorbar(
        [x for x, _ in points],
        [found.success for _, found in points],
        yerr=[
            [found.success - found.low for _, found in points],
            [found.high - found.success for _, found in points],
        ],
        fmt="o",
        capsize=3.5,
        elinewidth=1.5,
        label=f"held-out at {range_of(limits)} turns, 95 % interval",
        **marks,
    )
    graded = [(x, score) for x, found in points if (score := found.graded_score) is not None]
    if graded:
        axes.plot(
            [x for x, _ in graded],
            [score for _, score in graded],
            "o",
            markerfacecolor="none",
            label="held-out, mean score",
            **marks,
        )


def _heldout_points(report: Report) -> list[tuple[int, HeldoutResult]]:
    """Evaluations by the number of iterations that were done before them."""
    done = len(report.training)
    points = [(one.iterations, one.found) for one in report.evaluations]
    if report.heldout.before is not None:
        points.insert(0, (0, report.heldout.before))
    if report.heldout.after is not None:
        points = [point for point in points if point[0] != done]
        points.append((done, report.heldout.after))
    return points


def _annotate(axes: Axes, report: Report, span: int) -> None:
    """Annotate the evaluations before and after training with their success: above their interval,
    or below it at the top of the axes."""
    ends = ((report.heldout.before, 0, "left"), (report.heldout.after, span, "right"))
    for found, x, side in ends:
        if found is not None:
            above = found.high < 0.9
            axes.annotate(
                f"{found.success * 100:.1f} %",
                (x, found.high if above else found.low),
                (0, 5 if above else -5),
                textcoords="offset points",
                ha=side,
                va="bottom" if above else "top",
                color=HELDOUT,
                fontsize=11,
                fontweight="bold",
                zorder=6,
            )


def _limits(report: Report) -> list[int]:
    """The largest turn limit of an environment in each iteration."""
    own = {phase.phase: max(phase.turn_limits.values(), default=0) for phase in report.phases}
    return [own.get(step.phase) or step.max_turns for step in report.training]


def _maxima(steps: Sequence[IterationRecord], limits: Sequence[int]) -> tuple[float, float]:
    """The maxima of turns and entropy; 1 if nothing was measured."""
    turns = max(limits, default=1)
    entropy = max((step.entropy for step in steps if step.entropy), default=1.0)
    return float(turns), entropy


def _plot_metric(
    axes: Axes, steps: Sequence[IterationRecord], values: Sequence[float | None], title: str
) -> None:
    axes.set_title(title, loc="left", color=INK, fontsize=10)
    x = [step.iteration + 0.5 for step in steps]
    known = [np.nan if value is None else value for value in values]
    axes.plot(x, known, color=LEARNING, alpha=0.35, linewidth=0.8)
    axes.plot(x, _smoothed(steps, values), color=LEARNING, linewidth=1.6)


def _plot_horizon(axes: Axes, steps: Sequence[IterationRecord], limits: Sequence[int]) -> None:
    """Plot the maximum turns, `limits`, as a stepped line."""
    if steps:
        edges = [step.iteration for step in steps] + [steps[-1].iteration + 1]
        axes.stairs(limits, edges, baseline=None, color=INK, linewidth=1.1, linestyle=(0, (4, 2)))
