"""The report as one self-contained HTML file without scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from agentrl_components.evaluation.summary import SuccessRate
    from agentrl_components.reporting.schema import Report

FOLD_LENGTH = 400
"""Texts of an episode with more characters are collapsed."""


def html(report: Report, curve_svg: str) -> str:
    """Render the page. `curve_svg` is inserted as it is; everything else is escaped."""
    return (
        templates("agentrl_components.reporting")
        .get_template("report.html.j2")
        .render(
            report=report,
            curve=Markup(curve_svg),
            categories=categories(report),
            fold_length=FOLD_LENGTH,
        )
    )


def templates(package: str) -> Environment:
    """The Jinja environment of a package's templates: autoescaped, strict about undefined names."""
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
    """The names of all evaluated categories, sorted."""
    found = (report.heldout.random, report.heldout.before, report.heldout.after)
    return sorted({name for one in found if one is not None for name in one.categories})


def percent(share: float | None) -> str:
    """0.822 as `82.2 %`; None as a dash."""
    return "–" if share is None else f"{share * 100:.1f} %"


def interval(share: SuccessRate | None) -> str:
    """The 95 % interval of a share, in percent: `78.2 – 85.7`."""
    return "" if share is None else f"{share.low * 100:.1f} – {share.high * 100:.1f}"


def duration(seconds: float) -> str:
    """83.4 seconds as `1 min 23 s`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
