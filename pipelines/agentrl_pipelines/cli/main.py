"""The command `agentrl`. Commands import what they need when they run, so that `--help` is fast."""

from __future__ import annotations

import logging
from typing import Any

import click

from agentrl_envs.output.printable import CleanFormatter
from agentrl_pipelines.cli.commands.compile import compile_
from agentrl_pipelines.cli.commands.crd import crd
from agentrl_pipelines.cli.commands.evaluate import evaluate
from agentrl_pipelines.cli.commands.logs import logs
from agentrl_pipelines.cli.commands.metrics import metrics
from agentrl_pipelines.cli.commands.plan import plan
from agentrl_pipelines.cli.commands.report import report
from agentrl_pipelines.cli.commands.run import run
from agentrl_pipelines.cli.commands.stage import stage
from agentrl_pipelines.cli.commands.status import status
from agentrl_pipelines.cli.commands.submit import submit
from agentrl_pipelines.cli.commands.validate import validate
from agentrl_pipelines.cli.env_commands.group import envs
from agentrl_pipelines.cli.errors import discard_unwritten_output


class Commands(click.Group):
    """Ends with the exit code of interrupted commands on Ctrl-C, whichever command runs."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            from agentrl_pipelines.local.signals import exit_interrupted

            exit_interrupted()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentrl")
def main() -> None:
    """Train multi-turn LLM agents by reinforcement learning, from one manifest.

    \b
    On this machine:  validate, plan, run, metrics, report, eval
    On a cluster:     submit, status, logs, crd
    Environments:     envs
    """
    if logging.lastResort is not None:  # the handler of commands that configure no logging
        logging.lastResort.setFormatter(CleanFormatter())
    click.get_current_context().call_on_close(discard_unwritten_output)


for command in (
    run,
    submit,
    status,
    logs,
    validate,
    plan,
    evaluate,
    report,
    metrics,
    envs,
    crd,
    compile_,
    stage,
):
    main.add_command(command)
