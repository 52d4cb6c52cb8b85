"""`agentrl status NAME`: the status of a run on a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import option_context, option_namespace

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

STYLES = {"Running": "cyan", "Succeeded": "green", "Failed": "red", "Suspended": "yellow"}
BAD_WHEN_TRUE = ("Failed",)
NARROW = 80
"""Columns below which the messages of conditions have no column of their own."""


@click.command(short_help="Show the status of a run on the cluster.")
@click.argument("name")
@option_namespace
@option_context
@click.option("--output", "-o", type=click.Choice(["json"]), help="Print the whole object.")
def status(name: str, namespace: str | None, context: str | None, output: str | None) -> None:
    """Show the progress, the held-out success and the conditions of the run NAME."""
    with exit_on_error():
        from agentrl_pipelines.cli.kube_client import Cluster

        run = Cluster.open(context=context, namespace=namespace).get(name)
        if output == "json":
            echo(json.dumps(run, indent=2))
            return
        from agentrl_envs.output.console import Console

        console = Console()
        for part in parts(run, datetime.now(UTC), console.width):
            console.print(part, soft_wrap=isinstance(part, str))


def parts(run: Mapping[str, Any], now: datetime, width: int) -> list[RenderableType]:
    """The run as tables for `width` columns: key facts, horizon schedule, conditions."""
    status: Mapping[str, Any] = run.get("status") or {}
    tables: list[RenderableType] = [_facts(run, status, now), _schedule(run, status)]
    if status.get("conditions"):
        tables.append(_conditions(status["conditions"], now, width))
    return tables


def age(since: str, now: datetime) -> str:
    """The time since `since` (RFC 3339) in kubectl's format: 45s, 12m, 3h20m, 2d4h."""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 60:
        return f"{minutes}m"
    if hours < 24:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"


def _facts(run: Mapping[str, Any], status: Mapping[str, Any], now: datetime) -> Table:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    metadata = run["metadata"]
    rows: list[tuple[str, str | Text]] = [
        ("run", f"{metadata['name']} in namespace {metadata.get('namespace', 'default')}"),
        ("state", _state(status)),
        ("message", status.get("message", "")),
        ("iteration", _of(status.get("iteration"), status.get("iterations"))),
        ("held-out success", status.get("success", "")),
        ("best checkpoint", status.get("bestCheckpoint", "")),
        ("Kubeflow", status.get("kfpUrl") or status.get("kfpRun", "")),
        ("MLflow", status.get("mlflowUrl") or status.get("mlflowRun", "")),
        ("cost", _cost(status.get("cost") or {})),
        ("time", _times(metadata, status, now)),
    ]
    for name, value in rows:
        if value:
            table.add_row(name, _plain(value))
    return table


def _plain(value: str | Text) -> Text:
    """`value`, which is no rich markup."""
    from rich.text import Text

    return Text(value) if isinstance(value, str) else value


def _state(status: Mapping[str, Any]) -> Text:
    from rich.text import Text

    word = status.get("state", "Pending")
    attempts = status.get("attempt", 0)
    again = f" (restarted {attempts} time{'' if attempts == 1 else 's'})" if attempts else ""
    return Text(word, STYLES.get(word, "")) + Text(again, "dim")


def _of(done: int | None, all_: int | None) -> str:
    if done is None:
        return ""
    return f"{done:,}" if all_ is None else f"{done:,} of {all_:,}"


def _cost(cost: Mapping[str, int]) -> str:
    from agentrl_pipelines.cli.progress_view import clock_time

    parts = []
    if "tokens" in cost:
        parts.append(f"{cost['tokens']:,} tokens")
    for name, field in (("environments", "environmentSeconds"), ("devices", "deviceSeconds")):
        if field in cost:
            parts.append(f"{name} {clock_time(cost[field])}")
    return ", ".join(parts)


def _times(metadata: Mapping[str, Any], status: Mapping[str, Any], now: datetime) -> str:
    parts = []
    if metadata.get("creationTimestamp"):
        parts.append(f"created {age(metadata['creationTimestamp'], now)} ago")
    if status.get("startTime"):
        parts.append(f"started {age(status['startTime'], now)} ago")
    if status.get("completionTime"):
        parts.append(f"ended {age(status['completionTime'], now)} ago")
    return ", ".join(parts)


def _schedule(run: Mapping[str, Any], status: Mapping[str, Any]) -> Table:
    """The horizon schedule, with the current phase marked."""
    from rich import box
    from rich.table import Table

    spec = run["spec"]
    phases: Sequence[Mapping[str, int]] = spec["horizon"]["phases"]
    current = status.get("phaseIndex", 0)
    over = status.get("state") == "Succeeded"
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for title in ("horizon", "turns", "iterations"):
        table.add_column(title, justify="right")
    for index, phase in enumerate(phases):
        here = index == current and not over
        mark = "▶" if here else "✓" if over or index < current else ""
        cells = (mark, f"{index + 1}", turns_text(spec, index), f"{phase['iterations']:,}")
        table.add_row(*cells, style="bold" if here else "dim")
    return table


def turns_text(spec: Mapping[str, Any], phase: int) -> str:
    """The turn limit in a phase: `8`, or `3 to 8` if environments have limits of their own."""
    from agentrl_components.spec.turn_limits import own_limit, range_of

    scheduled: int = spec["horizon"]["phases"][phase]["maxTurns"]
    own = [each.get("maxTurns") for each in spec["environments"]]
    return range_of([own_limit(limits, phase) if limits else scheduled for limits in own])


def _conditions(conditions: Sequence[Mapping[str, str]], now: datetime, width: int) -> Table:
    """The conditions. In a narrow terminal a message is below its reason."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    narrow = width < NARROW
    for title in ("condition", "status", "reason"):
        table.add_column(title, overflow="fold")
    table.add_column("age", justify="right", no_wrap=True)
    if not narrow:
        table.add_column("message", overflow="fold")
    for each in conditions:
        bad = each["type"] in BAD_WHEN_TRUE and each["status"] == "True"
        style = "red" if bad else "green" if each["status"] == "True" else "dim"
        reason, message = Text(each["reason"]), Text(each.get("message", ""))
        table.add_row(
            Text(each["type"]),
            Text(each["status"], style),
            Text("\n").join([reason, message]) if narrow else reason,
            age(each["lastTransitionTime"], now),
            *([] if narrow else [message]),
        )
    return table
