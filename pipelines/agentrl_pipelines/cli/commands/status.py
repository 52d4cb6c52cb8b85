"""`agentrl status NAME`: how a run on a cluster stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

STYLES = {"Running": "cyan", "Succeeded": "green", "Failed": "red", "Suspended": "yellow"}
BAD_WHEN_TRUE = ("Failed",)


@click.command()
@click.argument("name")
@click.option("--namespace", "-n", help="Default: that of the kubeconfig's context.")
@click.option("--context", help="A context of the kubeconfig. Default: the current one.")
@click.option("--output", "-o", type=click.Choice(["json"]), help="The whole object instead.")
def status(name: str, namespace: str | None, context: str | None, output: str | None) -> None:
    """Show how far the run NAME is, how well it does, and where to look closer."""
    with exit_on_error():
        from agentrl_pipelines.cli.kube_client import Cluster

        run = Cluster.open(context=context, namespace=namespace).get(name)
        if output == "json":
            click.echo(json.dumps(run, indent=2))
            return
        from rich.console import Console

        console = Console()
        for part in parts(run, datetime.now(UTC)):
            console.print(part, soft_wrap=isinstance(part, str))


def parts(run: Mapping[str, Any], now: datetime) -> list[RenderableType]:
    """A run as people read it: the facts, the schedule, the conditions."""
    found: Mapping[str, Any] = run.get("status") or {}
    shown: list[RenderableType] = [_facts(run, found, now), _schedule(run, found)]
    if found.get("conditions"):
        shown.append(_conditions(found["conditions"], now))
    return shown


def age(since: str, now: datetime) -> str:
    """Since a time of the API, as kubectl says it: 45s, 12m, 3h20m, 2d4h."""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"


def _facts(run: Mapping[str, Any], found: Mapping[str, Any], now: datetime) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    metadata = run["metadata"]
    rows: list[tuple[str, str | Text]] = [
        ("run", f"{metadata['name']} in namespace {metadata.get('namespace', 'default')}"),
        ("state", _state(found)),
        ("message", found.get("message", "")),
        ("iteration", _of(found.get("iteration"), found.get("iterations"))),
        ("held-out success", found.get("success", "")),
        ("best checkpoint", found.get("bestCheckpoint", "")),
        ("Kubeflow", found.get("kfpUrl") or found.get("kfpRun", "")),
        ("MLflow", found.get("mlflowUrl") or found.get("mlflowRun", "")),
        ("cost", _cost(found.get("cost") or {})),
        ("time", _times(metadata, found, now)),
    ]
    for name, value in rows:
        if value:
            table.add_row(name, _plain(value))
    return table


def _plain(value: str | Text) -> Text:
    """Texts of others, with nothing in them that a terminal obeys or rich reads as markup."""
    from rich.text import Text

    from agentrl_components.reporting.printable import clean

    return Text(clean(value)) if isinstance(value, str) else value


def _state(found: Mapping[str, Any]) -> Text:
    from rich.text import Text

    word = found.get("state", "Pending")
    attempts = found.get("attempt", 0)
    again = f" (started anew {attempts} time{'' if attempts == 1 else 's'})" if attempts else ""
    return Text(word, STYLES.get(word, "")) + Text(again, "dim")


def _of(done: int | None, all_: int | None) -> str:
    if done is None:
        return ""
    return f"{done:,}" if all_ is None else f"{done:,} of {all_:,}"


def _cost(cost: Mapping[str, int]) -> str:
    from agentrl_pipelines.cli.progress_view import clock_time

    told_ = []
    if "tokens" in cost:
        told_.append(f"{cost['tokens']:,} tokens")
    for name, field in (("environments", "environmentSeconds"), ("devices", "deviceSeconds")):
        if field in cost:
            told_.append(f"{name} {clock_time(cost[field])}")
    return ", ".join(told_)


def _times(metadata: Mapping[str, Any], found: Mapping[str, Any], now: datetime) -> str:
    told_ = []
    if metadata.get("creationTimestamp"):
        told_.append(f"created {age(metadata['creationTimestamp'], now)} ago")
    if found.get("startTime"):
        told_.append(f"began {age(found['startTime'], now)} ago")
    if found.get("completionTime"):
        told_.append(f"ended {age(found['completionTime'], now)} ago")
    return ", ".join(told_)


def _schedule(run: Mapping[str, Any], found: Mapping[str, Any]) -> Table:
    """The horizon schedule, the phase that is worked on marked."""
    from rich import box
    from rich.table import Table

    phases: Sequence[Mapping[str, int]] = run["spec"]["horizon"]["phases"]
    current = found.get("phaseIndex", 0)
    over = found.get("state") == "Succeeded"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in ("horizon", "turns", "iterations"):
        table.add_column(title, justify="right")
    for index, phase in enumerate(phases):
        here = index == current and not over
        mark = "▶" if here else "✓" if over or index < current else ""
        cells = (mark, f"{index + 1}", f"{phase['maxTurns']}", f"{phase['iterations']:,}")
        table.add_row(*cells, style="bold" if here else "dim")
    return table


def _conditions(conditions: Sequence[Mapping[str, str]], now: datetime) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("condition", "status", "reason"):
        table.add_column(title, no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("message", overflow="fold")
    for each in conditions:
        bad = each["type"] in BAD_WHEN_TRUE and each["status"] == "True"
        style = "red" if bad else "green" if each["status"] == "True" else "dim"
        table.add_row(
            _plain(each["type"]),
            Text(each["status"], style),
            _plain(each["reason"]),
            age(each["lastTransitionTime"], now),
            _plain(each.get("message", "")),
        )
    return table
