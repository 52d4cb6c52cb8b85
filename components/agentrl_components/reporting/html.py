"""The report as one HTML file: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from agentrl_components.evaluation.summary import Share
    from agentrl_components.reporting.schema import Report

LONG = 400
"""Characters from which a text of an episode is folded away."""


def html(report: Report, curve_svg: str) -> str:
    """The page; `curve_svg` is trusted, everything else is escaped."""
    return (
        templates("agentrl_components.reporting")
        .get_template("report.html.j2")
        .render(
            report=report,
            curve=Markup(curve_svg),
            categories=categories(report),
            long=LONG,
        )
    )


def templates(package: str) -> Environment:
    """The templates of a package: escaped, with our filters, and strict about names."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, interval=interval, duration=duration)
    return environment


def categories(report: Report) -> list[str]:
    """Every category that was evaluated, in order."""
    found = (report.heldout.random, report.heldout.before, report.heldout.after)
    return sorted({name for one in found if one is not None for name in one.categories})


def percent(share: float | None) -> str:
    """0.822 as `82.2 %`."""
    return "–" if share is None else f"{share * 100:.1f} %"


def interval(share: Share | None) -> str:
    """A share's interval as `78.2 – 85.7`."""
    return "" if share is None else f"{share.low * 100:.1f} – {share.high * 100:.1f}"


def duration(seconds: float) -> str:
    """83.4 as `1 min 23 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
