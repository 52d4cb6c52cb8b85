"""`agentrl report`: what a run has come to."""

from __future__ import annotations

from pathlib import Path

import click

from agentrl_pipelines.cli.errors import exit_on_error


@click.command()
@click.option(
    "--root", type=click.Path(path_type=Path), required=True, help="The folder of the run."
)
def report(root: Path) -> None:
    """Make report.json, report.html and curve.png of a run anew, and print the summary.

    Also of a run that is under way or was stopped. Exit code 2 where there is no run."""
    with exit_on_error():
        from rich.console import Console

        from agentrl_components.reporting.build import build, write
        from agentrl_pipelines.cli.run_summary import show
        from agentrl_pipelines.local.run_folder import open_run, store_errors

        store, run = open_run(root)
        found = build(store, run, root)
        with store_errors(root):
            write(found, root)
        show(found, root, Console(highlight=False))
