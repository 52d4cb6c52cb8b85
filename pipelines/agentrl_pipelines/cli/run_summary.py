"""The end of `agentrl run`, for the terminal: what was learned, and where everything is."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agentrl_components.evaluation.summary import Share
from agentrl_components.reporting.build import database
from agentrl_components.reporting.schema import Kept, Pair, Report
from agentrl_components.reporting.transcript import Replay, lines

WIDEST = 100
"""Columns that text is set in, however wide the terminal is."""


def show(report: Report, root: Path, console: Console) -> None:
    """Print the summary of a run whose report was written to `root`."""
    width = min(console.width, WIDEST)
    console.print()
    console.print(Text(report.headline, "bold"))
    if report.message:
        console.print(Text(f"{report.status}: {report.message}"))
    console.print(heldout(report))
    if (pair := told_pair(report)) is not None:
        console.print(_episode(pair, width))
    for ring in report.alarms:
        when = f"{ring.first}" if ring.first == ring.last else f"{ring.first} to {ring.last}"
        console.print(Text(f"alarm at iteration {when}: {ring.message} ({ring.action})"))
    console.print(_places(report, root), soft_wrap=True)


def heldout(report: Report) -> Table:
    """Success per category: random, before and after, each with its 95 % interval."""
    found = report.heldout
    columns = (found.random, found.before, found.after)
    started = "after warm start" if report.warm_start else "before"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left", caption_style="dim")
    table.caption = _caption(report)
    table.add_column("", overflow="fold")
    for name in ("random policy", started, "after training"):
        table.add_column(name, justify="right", no_wrap=True)
    names = sorted({name for one in columns if one for name in one.categories})
    alone = len({name.split("/", 1)[0] for name in names}) == 1
    for name in names:
        shown = name.split("/", 1)[-1] if alone else name
        shares = [one.categories.get(name) if one else None for one in columns]
        table.add_row(Text(shown), *map(_share, shares))
    table.add_section()
    table.add_row(Text("all"), *map(_share, columns), style="bold")
    replies = [Text(f"{one.wellformed * 100:.1f}" if one else "–") for one in columns]
    table.add_row(Text("well-formed"), *replies)
    return table


def told_pair(report: Report) -> Pair | None:
    """The episode that shows most: one that was failed before and is solved after, if there is."""
    both = [pair for pair in report.episodes if pair.before and pair.after]
    learned = [
        pair
        for pair in both
        if pair.before and pair.after and pair.after.success > pair.before.success
    ]
    pairs = learned or both or list(report.episodes)
    return max(pairs, key=_length, default=None) if learned else next(iter(pairs), None)


def mlflow_command(uri: str) -> str:
    """The command that opens MLflow: the one beside this Python, where there is one."""
    beside = Path(sys.executable).parent / "mlflow"
    program = str(beside) if beside.exists() else shutil.which("mlflow") or "mlflow"
    return f"{shlex.quote(near(Path(program)))} ui --backend-store-uri {shlex.quote(uri)}"


def near(path: Path) -> str:
    """`path` as a person would type it here."""
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        return os.path.relpath(path)
    return str(path)


def _length(pair: Pair) -> int:
    return len(pair.after.moves) if pair.after else 0


def _caption(report: Report) -> str:
    found = report.heldout.after or report.heldout.before
    if found is None:
        return ""
    return f"% of {found.n} held-out tasks, {found.max_turns} turns allowed, 95 % intervals"


def _share(share: Share | None) -> Text:
    if share is None:
        return Text("–")
    bounds = f"[{share.low * 100:.1f}, {share.high * 100:.1f}]"
    return Text(f"{share.success * 100:.1f} ") + Text(f"{bounds:>12}", "dim")


def _episode(pair: Pair, width: int) -> Group:
    parts: list[Text] = [Text(f"One task, played twice: {pair.category}", "bold")]
    for name, played in (("before", pair.before), ("after", pair.after)):
        if played is not None:
            parts.append(Text(name, "underline"))
            parts.extend(_line(line, played) for line in lines(played, width))
    return Group(*parts, Text())


def _line(line: str, played: Replay) -> Text:
    if line.startswith("  →"):
        return Text(line, "cyan")
    if line.startswith("  ="):
        return Text(line, "green" if played.success else "red")
    return Text(line)


def _places(report: Report, root: Path) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("learning curve", Text(near(root.absolute() / "curve.png")))
    table.add_row("report", Text(near(root.absolute() / "report.html")))
    for kept in report.checkpoints:
        if kept.best or kept.last:
            table.add_row(_kept(kept), Text(kept.url))
    # MLflow's process may have made its database after the report was written.
    uri = report.mlflow.uri or database(root)
    if uri is not None:
        served = urlsplit(uri).scheme in ("http", "https")
        table.add_row("metrics, episodes", Text(uri if served else mlflow_command(uri)))
    return table


def _kept(kept: Kept) -> str:
    which = " and ".join([*(["best"] if kept.best else []), *(["last"] if kept.last else [])])
    return f"{which} checkpoint"
