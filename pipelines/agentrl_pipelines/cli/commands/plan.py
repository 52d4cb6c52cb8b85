"""`agentrl plan FILE`: memory, checkpoints, capacity and time of a run, before it starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.options import FiniteRange, option_set
from agentrl_pipelines.sizing.devices import CPU, DEVICES, device

DAY_S = 86_400.0
SLOWEST = 1e-3
"""Tokens per second. Divided by less, the tokens of a run could take longer than a float holds."""


@click.command(short_help="Print what a run needs and whether it fits, without starting it.")
@click.argument("file", type=click.Path())
@option_set
@click.option(
    "--device",
    "kind",
    type=click.Choice([CPU, *sorted(DEVICES)]),
    default="h100",
    show_default=True,
    help="Kind of GPU, or this machine's processor and memory.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the model's config.json, in place of the source's.",
)
@click.option(
    "--tokens-per-turn",
    type=click.IntRange(min=1),
    help="Tokens of a reply and the observation after it.  [default: episodes fill model.context]",
)
@click.option(
    "--turn-seconds",
    type=FiniteRange(min=0, max=DAY_S),
    default=0.02,
    show_default=True,
    help="Latency of an environment's step, in seconds.",
)
@click.option(
    "--trained-tokens",
    type=FiniteRange(min=SLOWEST),
    help="Tokens per second of all trainers, measured.  [default: 30 % of the peak operations]",
)
@click.option(
    "--sampled-tokens",
    type=FiniteRange(min=SLOWEST),
    help="Sampled tokens per second of all engines, measured.  "
    "[default: 50 % of the peak bandwidth]",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Format of the plan.",
)
def plan(
    file: str,
    overrides: tuple[str, ...],
    kind: str,
    config: Path | None,
    tokens_per_turn: int | None,
    turn_seconds: float,
    trained_tokens: float | None,
    sampled_tokens: float | None,
    output: str,
) -> None:
    """Print what the run in FILE needs, without starting anything: memory of every device,
    checkpoints, environment sessions, tokens and time.

    Exit code 2 if the manifest is invalid or the run does not fit; then each problem names the
    field to change."""
    with exit_on_error():
        from agentrl_components.spec import load
        from agentrl_pipelines.cli import plan_report
        from agentrl_pipelines.local.variables import set_variables
        from agentrl_pipelines.sizing.duration import Throughput
        from agentrl_pipelines.sizing.plan import make_plan
        from agentrl_pipelines.sizing.shape import shape_of

        run = load(file, overrides)
        set_variables(run.spec.compute)
        assumed = Throughput(
            turn_seconds=turn_seconds, trained_tokens=trained_tokens, sampled_tokens=sampled_tokens
        )
        shape = shape_of(run.spec.model, config)
        made = make_plan(run.spec, shape, device(kind), assumed, tokens_per_turn)
        if output == "json":
            echo(json.dumps(plan_report.as_json(run, made), indent=1, allow_nan=False))
        else:
            from agentrl_envs.output.console import Console

            plan_report.show(run, made, Console())
        if made.problems:
            sys.exit(2)
