"""agentrl stage: what a pod of the phase graph runs."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from agentrl_components.workers.imports import loading
from agentrl_pipelines.cli.errors import told


@click.command()
@click.argument("name")
@click.option("--manifest", required=True, help="The manifest as JSON, or @FILE.")
@click.option("--phase", required=True, type=click.IntRange(0), help="From 0.")
@click.option(
    "--attempt",
    default=0,
    type=click.IntRange(0),
    help="Times the phase was begun before; the log's first line says which this is.",
)
@click.option("--executor-input", help="What Kubeflow's launcher says.")
@click.option(
    "--scratch",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for what need not last. Default: a temporary one.",
)
def stage(
    name: str,
    manifest: str,
    phase: int,
    attempt: int,
    executor_input: str | None,
    scratch: Path | None,
) -> None:
    """Do one stage of one phase: provision, train (or rollout and update, side by side), evaluate,
    expand, settle. What is done already is not done twice."""
    began = time.monotonic()
    with told():
        with loading():
            import yaml

            from agentrl_components.errors import SpecError
            from agentrl_components.spec.parsing.load import parse

        text = Path(manifest[1:]).read_text("utf-8") if manifest.startswith("@") else manifest
        run = parse(yaml.safe_load(text))

        with loading():
            import logging

            from rich.console import Console

            from agentrl_pipelines.cli.progress_view import view_for
            from agentrl_pipelines.stages.artifacts import Artifacts
            from agentrl_pipelines.stages.runner import end_with
            from agentrl_pipelines.stages.stages import STEPS, Step

        if name not in STEPS:
            raise SpecError([f"NAME: there is no stage {name}; use one of {', '.join(STEPS)}"])
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("httpx").setLevel(logging.WARNING)  # or every step is a line
        with TemporaryDirectory(prefix="agentrl-stage-") as temporary:
            folder = scratch or Path(temporary)
            step = Step(
                run=run,
                phase=phase,
                attempt=attempt,
                scratch=folder,
                artifacts=Artifacts(executor_input, folder),
                view=view_for(Console()),
                began=began,
            )
            step.view.note(f"phase {phase + 1}, attempt {attempt + 1}")
            end_with(name, step)
