"""`agentrl run FILE`: train on this machine."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.manifest_warnings import print_warnings
from agentrl_pipelines.cli.options import option_seed, option_set

if TYPE_CHECKING:
    from agentrl_envs.output.console import Console


@click.command(short_help="Train on this machine.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--root",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the run.  [default: runs/NAME]",
)
@option_seed
@option_set
def run(file: str, root: Path | None, seed: int | None, overrides: tuple[str, ...]) -> None:
    """Train the agent described by the manifest FILE on this machine.

    Run the same command again to resume a run that was stopped. The folder of the run holds
    report.json, report.html, curve.png, mlflow.db and store/ (checkpoints and records)."""
    with exit_on_error():
        from agentrl_components.errors import CollapseError, SpecError
        from agentrl_components.spec.parsing.load import load
        from agentrl_components.spec.rules.environments.vocabulary import check_vocabularies
        from agentrl_components.spec.rules.validation import local_mistakes
        from agentrl_pipelines.local.variables import set_variables, tracking_mistakes

        given = (*overrides, *([] if seed is None else [f"seed={seed}"]))
        manifest = load(file, given)
        mistakes = [*map(str, tracking_mistakes(manifest.spec.tracking))]
        set_variables(manifest.spec.compute)
        mistakes += map(str, local_mistakes(manifest))
        if mistakes:
            raise SpecError(mistakes)
        check_vocabularies(manifest.spec)
        folder = root or Path("runs") / manifest.metadata.name
        print_warnings(manifest.spec, root=folder)

        from agentrl_envs.output.fail_safe import fail_safe_console
        from agentrl_pipelines.cli.progress_view import view_for
        from agentrl_pipelines.cli.run_summary import show

        console = fail_safe_console()
        with closing(view_for(console)) as view:
            # Importing the trainer takes seconds: show progress first.
            view.stage("load")
            from agentrl_pipelines.local.run import run_local

            try:
                report = run_local(manifest, folder, view)
            except CollapseError:
                view.close()
                show_stopped(folder, console)
                raise
        show(report, folder, console)


def show_stopped(folder: Path, console: Console) -> None:
    """Print the summary of the run in `folder` that an alarm stopped."""
    from agentrl_components.reporting.build import build
    from agentrl_pipelines.cli.run_summary import show
    from agentrl_pipelines.local.run_folder import open_run

    store, run = open_run(folder)
    show(build(store, run, folder), folder, console)
