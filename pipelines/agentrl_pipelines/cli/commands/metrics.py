"""`agentrl metrics`: the metrics of a run as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import option_root

if TYPE_CHECKING:
    from agentrl_components.storage.store import Store

FIELDS = ("iteration", "phase", "max_turns", "metrics")
"""The fields of a line. None of them depends on a clock, unless episodes stream."""


@click.command(short_help="Print the metrics of a run as JSON lines.")
@option_root
def metrics(root: Path) -> None:
    """Print the metrics of a run, one JSON object per iteration and line.

    Iterations are counted from 0: the first line is step 1 in MLflow. The metrics contain no
    times: two runs with the same computations print the same output. With compute.ray and
    rollout.maxStaleness above 0 results depend on speed, and the output contains idle shares and
    the depth of the queue. Exit code 2 if the folder holds no run."""
    with exit_on_error():
        from agentrl_pipelines.local.run_folder import open_run

        store, _ = open_run(root)
        for line in lines(store):
            echo(line)


def lines(store: Store) -> Iterator[str]:
    """The iterations in `store` as JSON, in order. Skips those that a concurrent run deletes.

    Raises `StoreError` with the key of a damaged or missing record."""
    from agentrl_components.reporting.read import iteration_keys
    from agentrl_components.schedule.record import IterationRecord
    from agentrl_components.storage.records import find_record

    for key in iteration_keys(store):
        record = find_record(store, key, IterationRecord)
        if record is not None:
            data = record.json_data()
            yield json.dumps({name: data[name] for name in FIELDS}, sort_keys=True)
