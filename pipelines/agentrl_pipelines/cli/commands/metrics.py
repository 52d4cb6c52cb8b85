"""`agentrl metrics`: every iteration as a line of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from agentrl_components.storage.store import Store

TOLD = ("iteration", "phase", "max_turns", "metrics")
"""What a line holds. Nothing here is read from a clock."""


@click.command()
@click.option(
    "--root", type=click.Path(path_type=Path), required=True, help="The folder of the run."
)
def metrics(root: Path) -> None:
    """Print the metrics of a run, one line of JSON per iteration.

    Holds no clock readings: of two runs that computed the same, the output is the same. Exit code 2
    where there is no run."""
    with exit_on_error():
        from agentrl_pipelines.local.run_folder import open_run

        store, _ = open_run(root)
        for line in lines(store):
            click.echo(line)


def lines(store: Store) -> Iterator[str]:
    """The iterations in `store`, in order, but for those that a run which goes on removes
    meanwhile. Raises `StoreError`, which names a damaged one."""
    from agentrl_components.errors import AbsentError, StoreError
    from agentrl_components.storage import keys

    for key in store.list(keys.ITERATIONS):
        try:
            record = json.loads(store.get(key))
            shown = {name: record[name] for name in TOLD}
        except AbsentError:
            continue
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{key}: in {store.url}: damaged: not an iteration") from error
        yield json.dumps(_plain(shown), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    """JSON has no word for a number that is not one: such a number becomes text."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
