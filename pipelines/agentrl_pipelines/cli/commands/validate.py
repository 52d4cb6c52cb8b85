"""`agentrl validate FILE`: check a manifest and list all errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentrl_envs.output.printable import echo
from agentrl_pipelines.cli.errors import exit_on_error
from agentrl_pipelines.cli.manifest_warnings import print_warnings
from agentrl_pipelines.cli.options import option_set

if TYPE_CHECKING:
    from agentrl_components.spec import AgentRLRun


@click.command(short_help="Check a manifest without starting anything.")
@click.argument("file", type=click.Path())
@option_set
def validate(file: str, overrides: tuple[str, ...]) -> None:
    """Check the manifest FILE without starting anything.

    Prints a summary of the run, or one line per error: field, reason, fix. Exit code 2 if there are
    errors. Warns about turn limits that long replies do not reach, evaluated weights without a
    checkpoint and text that a model may not know, and about files, packages and devices that a
    local run would miss."""
    with exit_on_error():
        from agentrl_components.spec import load
        from agentrl_components.spec.rules.environments.vocabulary import check_vocabularies
        from agentrl_components.spec.rules.local import local_warnings
        from agentrl_pipelines.local.variables import set_variables

        run = load(file, overrides)
        set_variables(run.spec.compute)
        check_vocabularies(run.spec)
        echo(f"{file}: valid")
        echo(summary(run))
        print_warnings(run.spec)
        for warning in local_warnings(run.spec):
            echo(f"on this machine: {warning}", err=True)


def summary(run: AgentRLRun) -> str:
    """A one-line summary: model, environments, algorithm, horizon, iterations, episodes."""
    from agentrl_components.spec.turn_limits import all_turn_limits, range_of

    spec = run.spec
    iterations = sum(phase.iterations for phase in spec.horizon.phases)
    limits = (all_turn_limits(spec, phase) for phase in range(len(spec.horizon.phases)))
    turns = " -> ".join(range_of(one.values()) for one in limits)
    most = "" if spec.horizon.advance == "iterations" else "at most "
    group = spec.rollout.group_size
    compared = " compared" if spec.algorithm.traits.needs_group else ""
    episodes = iterations * spec.rollout.tasks * group
    return (
        f"{run.metadata.name}: {spec.model.source} in "
        f"{', '.join(environment.name for environment in spec.environments)}"
        f"; {spec.algorithm.name}"
        + (f" after {spec.warm_start.algorithm}" if spec.warm_start else "")
        + f"; horizon {turns} turns; {most}{iterations:,} iterations of {spec.rollout.tasks} tasks"
        f" x {group}{compared} episodes, {most}{episodes:,} episodes"
    )
