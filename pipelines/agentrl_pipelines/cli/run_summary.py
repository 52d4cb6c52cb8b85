"""The summary that `agentrl run` and `agentrl report` print: results and where files are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.summary import HeldoutResult, SuccessRate
from agentrl_components.reporting.build import database
from agentrl_components.reporting.schema import CheckpointSummary, EpisodePair, Report
from agentrl_components.reporting.transcript import Replay, lines
from agentrl_envs.output.console import Console

MAX_WIDTH = 100
"""Maximum width of text in columns."""


def show(report: Report, root: Path, console: Console) -> None:
    """Print the summary of a run whose report was written to `root`."""
    width = min(console.width, MAX_WIDTH)
    console.print()
    console.print(Text(report.headline, "bold"))
    if report.message:
        console.print(Text(f"{report.status}: {report.message}"))
    console.print(heldout_table(report))
    lost = _counted(report, lambda found: found.lost)
    if lost:
        console.print(
            Text(f"Episodes lost to environment failures, which are not counted: {lost}.", "yellow")
        )
    full = _counted(report, lambda found: found.out_of_tokens)
    if full:
        console.print(
            Text(
                f"Episodes that ended because they filled the context: {full}. "
                "Raise spec.model.context or lower the number of turns.",
                "yellow",
            )
        )
    if report.silence:
        console.print(Text(report.silence, "yellow"))
    if (pair := example_pair(report)) is not None:
        console.print(_example(pair, width))
    for alarm in report.alarms:
        single = alarm.first == alarm.last
        when = f"{alarm.first}" if single else f"{alarm.first} to {alarm.last}"
        console.print(Text(f"alarm at iteration {when}: {alarm.message} ({alarm.action})"))
    for line in _locations(report, root):
        console.print(line, soft_wrap=True)  # never broken, so that it can be copied


def _counted(report: Report, count: Callable[[HeldoutResult], int]) -> str:
    """What `count` finds in each evaluation: `3 of the evaluation before`. Empty: nothing."""
    found = (report.heldout.random, report.heldout.before, report.heldout.after)
    counts = {one.name: count(one) for one in found if one is not None}
    return ", ".join(f"{n} of the evaluation {name}" for name, n in counts.items() if n)


def heldout_table(report: Report) -> Table:
    """Held-out success per category with 95 % intervals: random policy, before, after."""
    found = report.heldout
    columns = (found.random, found.before, found.after)
    started = "after warm start" if report.warm_start else "before"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left", caption_style="dim")
    table.caption = _caption(report)
    table.add_column("", overflow="fold")
    for name in ("random policy", started, report.after_name):
        # In a narrow terminal an interval is below its share. With `no_wrap` names would vanish.
        table.add_column(name, justify="right", overflow="fold")
    names = sorted({name for one in columns if one for name in one.categories})
    single = len({name.split("/", 1)[0] for name in names}) == 1
    for name in names:
        shown = name.split("/", 1)[-1] if single else name
        shares = [one.categories.get(name) if one else None for one in columns]
        table.add_row(Text(shown), *map(_share, shares))
    table.add_section()
    table.add_row(Text("all"), *map(_share, columns), style="bold")
    if any(one is not None and one.graded_score is not None for one in columns):
        scores = [Text(f"{one.score * 100:.1f}" if one else "–") for one in columns]
        table.add_row(Text("mean score"), *scores)
    replies = [Text(f"{one.wellformed * 100:.1f}" if one else "–") for one in columns]
    table.add_row(Text("well-formed"), *replies)
    return table


def example_pair(report: Report) -> EpisodePair | None:
    """The most telling pair of episodes. None: no episode was stored."""
    return next(iter(report.examples), None)


def mlflow_command(uri: str) -> str:
    """The command that opens the MLflow UI, from this Python's environment if it has one."""
    installed = Path(sys.executable).parent / "mlflow"
    program = str(installed) if installed.exists() else shutil.which("mlflow") or "mlflow"
    return f"{shlex.quote(short_path(Path(program)))} ui --backend-store-uri {shlex.quote(uri)}"


def short_path(path: Path) -> str:
    """`path` relative to the current folder, if it is below it."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return str(path)


def _caption(report: Report) -> str:
    found = report.heldout.after or report.heldout.before
    if found is None:
        return ""
    tasks = f"{found.n} held-out tasks{found.without}"
    return f"% of {tasks}, {found.turns_allowed}, 95 % intervals"


def _share(share: SuccessRate | None) -> Text:
    if share is None:
        return Text("–")
    bounds = f"[{share.low * 100:.1f}, {share.high * 100:.1f}]"
    return Text(f"{share.success * 100:.1f} ") + Text(f"{bounds:>12}", "dim")


def _example(pair: EpisodePair, width: int) -> Group:
    parts: list[Text] = [Text(f"Example task, before and after: {pair.category}", "bold")]
    for name, played in (("before", pair.before), ("after", pair.after)):
        if played is not None:
            parts.append(Text(name, "underline"))
            parts.extend(_styled(line, played) for line in lines(played, width))
    return Group(*parts, Text())


def _styled(line: str, played: Replay) -> Text:
    if line.startswith("  →"):
        return Text(line, "cyan")
    if line.startswith("  ="):
        return Text(line, "green" if played.success else "red")
    return Text(line)


def _locations(report: Report, root: Path) -> list[Text]:
    """A line for each file and link: its name and its path, URL or command."""
    rows = [
        ("learning curve", short_path(root.absolute() / "curve.png")),
        ("report", short_path(root.absolute() / "report.html")),
    ]
    rows += [
        (_checkpoint_label(kept), kept.url) for kept in report.checkpoints if kept.best or kept.last
    ]
    # MLflow's process may create the database after the report is written.
    uri = report.mlflow.uri or database(root)
    if uri is not None:
        served = urlsplit(uri).scheme in ("http", "https")
        rows.append(("metrics, episodes", uri if served else mlflow_command(uri)))
        if report.mlflow.registered is not None:
            name = f"models:/{report.mlflow.registered}/VERSION"
            rows.append(
                ("registered model", f"{name}, with MLFLOW_TRACKING_URI={shlex.quote(uri)}")
            )
    width = max(len(name) for name, _ in rows)
    return [Text(f"{name:<{width}}  {location}") for name, location in rows]


def _checkpoint_label(kept: CheckpointSummary) -> str:
    which = " and ".join([*(["best"] if kept.best else []), *(["last"] if kept.last else [])])
    return f"{which} checkpoint"
