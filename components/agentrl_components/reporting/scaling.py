"""Test-time scaling: success by the number of turns allowed (arXiv 2509.08755, section 4.4).

The numbers are those of `evaluation.turnSweep`; this module only arranges and draws them.
"""

from __future__ import annotations

import io
from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import BaseModel, ConfigDict

from agentrl_components.evaluation.summary import HeldoutResult, SuccessRate
from agentrl_components.reporting.plot import INK, LEARNING, OTHERS, QUIET

_CONFIG = ConfigDict(extra="forbid", frozen=True)


class Scaling(BaseModel):
    """The content of scaling.json."""

    model_config = _CONFIG

    model: str
    temperature: float
    samples: int
    tasks: int
    success: dict[int, SuccessRate]
    """Over all tasks, by turns allowed."""
    environments: dict[str, dict[int, SuccessRate]]
    """Keyed by environment; empty if there is one."""

    @classmethod
    def of(cls, model: str, found: HeldoutResult) -> Scaling:
        """That of an evaluation with a turn sweep."""
        return cls(
            model=model,
            temperature=found.temperature,
            samples=found.samples,
            tasks=found.n,
            success=found.turn_sweep,
            environments=found.environment_sweep,
        )


def png(found: Scaling) -> bytes:
    """The figure as a PNG."""
    figure = Figure(figsize=(7, 4.4), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    curves = found.environments or {"": found.success}
    colors = (LEARNING, *OTHERS)
    for number, (name, shares) in enumerate(curves.items()):
        _plot_curve(axes, shares, colors[number % len(colors)], name)
    if found.environments:
        _plot_curve(axes, found.success, INK, "all")
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)
    axes.set_title(
        f"{found.model}: success by turns allowed", loc="left", color=INK, fontsize=11, wrap=True
    )
    axes.set_xlabel("turns allowed", color=INK)
    axes.set_ylabel(f"success, %; 95 % intervals, {found.tasks} tasks", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylim(0, 100)
    axes.set_xlim(left=0)
    axes.grid(axis="y", color=QUIET, alpha=0.22, linewidth=0.7)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=150, metadata={"Software": "AgentRL"})
    return file.getvalue()


def _plot_curve(axes: Axes, shares: Mapping[int, SuccessRate], color: str, name: str) -> None:
    turns = sorted(shares)
    low = [100 * shares[each].low for each in turns]
    middle = [100 * shares[each].success for each in turns]
    high = [100 * shares[each].high for each in turns]
    axes.fill_between(turns, low, high, color=color, alpha=0.14, linewidth=0)
    axes.plot(turns, middle, color=color, marker="o", markersize=4.5, linewidth=1.8, label=name)
