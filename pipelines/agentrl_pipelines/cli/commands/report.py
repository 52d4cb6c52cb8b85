"""`agentrl report`: rebuild the report of a run and print its summary."""

from __future__ import annotations

from pathlib import Path

import click

from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import option_root

KILLED = {
    "status": "stopped",
    "message": "the process of the run was killed; run the same command again to resume",
}
"""The state of a run whose process did not live to write it."""


@click.command(short_help="Rebuild the report of a run and print its summary.")
@option_root
def report(root: Path) -> None:
    """Rebuild report.json, report.html and curve.png of a run, and print the summary.

    The run may still be in progress, or stopped. Exit code 2 if the folder holds no run."""
    with exit_on_error():
        from agentrl_components.reporting.build import build, write
        from agentrl_components.storage.records import read_state
        from agentrl_envs.output.console import Console
        from agentrl_pipelines.cli.run_summary import show
        from agentrl_pipelines.local.root_lock import holder_was_killed
        from agentrl_pipelines.local.run_folder import open_run, store_errors

        store, run = open_run(root)
        killed = holder_was_killed(root) and read_state(store).status == "running"
        result = build(store, run, root, KILLED if killed else None)
        try:
            with store_errors(root):
                write(result, root)
        finally:  # also of a folder that may only be read
            show(result, root, Console(highlight=False))
