"""`agentrl stage`: the command of a stage's pod."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agentrl_components.storage.scratch import ScratchFolder
from agentrl_components.workers.imports import collection_disabled
from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from agentrl_components.spec import AgentRLRun


@click.command(short_help="Run one stage; the command of the pods.")
@click.argument("name")
@click.option("--manifest", required=True, help="The manifest as JSON, or @FILE.")
@click.option("--phase", required=True, type=click.IntRange(0), help="Index of the phase, from 0.")
@click.option(
    "--attempt",
    default=0,
    type=click.IntRange(0),
    help="How often the phase was restarted; printed in the log's first line.",
)
@click.option("--executor-input", help="JSON that the Kubeflow Pipelines launcher passes.")
@click.option(
    "--scratch",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for temporary files.  [default: a new temporary folder]",
)
def stage(
    name: str,
    manifest: str,
    phase: int,
    attempt: int,
    executor_input: str | None,
    scratch: Path | None,
) -> None:
    """Run stage NAME of one phase. Meant for the pods of a KFP run.

    NAME is provision, train (or rollout and update, at the same time), evaluate, expand or settle.
    A stage that is already complete is not repeated."""
    started = time.monotonic()
    with exit_on_error():
        run = read_manifest(name, manifest)
        with collection_disabled():
            from agentrl_components.errors import SpecError
            from agentrl_envs.output.fail_safe import fail_safe_console
            from agentrl_pipelines.cli.progress_view import view_for
            from agentrl_pipelines.stages.artifacts import Artifacts
            from agentrl_pipelines.stages.context import StageContext
            from agentrl_pipelines.stages.runner import run_and_exit
            from agentrl_pipelines.stages.stages import STAGES

        if name not in STAGES:
            raise SpecError([f"NAME: there is no stage {name}; use one of {', '.join(STAGES)}"])
        set_up_logging()
        with ScratchFolder() as temporary:
            folder = scratch or temporary
            context = StageContext(
                run=run,
                phase=phase,
                attempt=attempt,
                scratch=folder,
                artifacts=Artifacts(executor_input, folder),
                view=view_for(fail_safe_console()),
                started=started,
            )
            context.view.note(f"phase {phase + 1}, attempt {attempt + 1}")
            run_and_exit(name, context)


def read_manifest(stage_name: str, manifest: str) -> AgentRLRun:
    """The run of the option --manifest. Raises `SpecError` if it is refused, which is then also the
    termination message of the pod of this stage."""
    with collection_disabled():
        from agentrl_components.errors import SpecError
        from agentrl_components.spec.parsing.document import document
        from agentrl_components.spec.parsing.load import parse, read_text

    source = manifest[1:] if manifest.startswith("@") else "--manifest"
    text = read_text(Path(source)) if manifest.startswith("@") else manifest
    try:
        return parse(document(text, source))
    except SpecError as error:
        from agentrl_pipelines.stages.termination import write_termination

        write_termination("SpecError", f"{stage_name}: {error}", permanent=True)
        raise


def set_up_logging() -> None:
    """Write what our packages log, from INFO on, to stderr, which is the pod's log."""
    import logging

    from agentrl_envs.output.printable import log_to_stderr

    log_to_stderr("%(levelname)s %(name)s: %(message)s")
    for package in ("agentrl_pipelines", "agentrl_components", "agentrl_envs"):
        logging.getLogger(package).setLevel(logging.INFO)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns about its font cache
