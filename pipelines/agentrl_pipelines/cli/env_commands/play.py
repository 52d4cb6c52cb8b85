"""`agentrl envs play`: play an environment in the terminal, alone or beside a trained agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from agentrl_pipelines.cli.env_commands.source import (
    COUNT,
    open_task_set,
    option_options,
    option_protocol,
    option_token_env,
    option_url,
    usage_errors,
)
from agentrl_pipelines.cli.errors import exit_on_error

if TYPE_CHECKING:
    from agentrl_envs.env import Split
    from agentrl_pipelines.local.agent import SavedAgent, TrainedAgent


@click.command("play")
@click.argument("name")
@option_options
@option_url
@option_protocol
@option_token_env
@click.option(
    "--split",
    type=click.Choice(["train", "heldout"]),
    default="train",
    show_default=True,
    help="Split to take the task from.",
)
@click.option(
    "--index",
    type=click.IntRange(0, 999_999),
    default=0,
    show_default=True,
    help="Index of the task. Finding it takes time proportional to the index.",
)
@click.option(
    "--agent",
    metavar="ROOT|SOURCE",
    help="Play beside a trained agent: the folder of a run, or a model source such as "
    "models:/NAME/VERSION.",
)
@click.option(
    "--checkpoint",
    metavar="N|best|last",
    help="With --agent ROOT: the checkpoint.  [default: best]",
)
@click.option("--watch", is_flag=True, help="With --agent: watch it play, without being asked.")
@click.option(
    "--max-turns",
    type=COUNT,
    help="Turns after which the episode is cut off, in place of the limit of the agent's run.",
)
def play(
    name: str,
    options: tuple[str, ...],
    url: str | None,
    protocol: str,
    token_env: str,
    split: Split,
    index: int,
    agent: str | None,
    checkpoint: str | None,
    watch: bool,
    max_turns: int | None,
) -> None:
    """Play a task of environment NAME in the terminal, alone or beside a trained agent."""
    from agentrl_envs import terminal
    from agentrl_envs.output.console import Console

    for option, given in (("--watch", watch), ("--checkpoint", checkpoint is not None)):
        if given and agent is None:
            raise click.UsageError(f"{option}: has no effect without --agent")
    console = Console(highlight=False, soft_wrap=True)
    with (
        exit_on_error(),
        usage_errors(),
        open_partner(agent, checkpoint or "best", name) as (partner, saved),
        open_task_set(
            name, options, url, protocol, token_env, saved.options if saved else {}
        ) as task_set,
    ):
        terminal.play(
            task_set,
            split=split,
            index=index,
            console=console,
            ask=lambda: console.input("[bold]> [/]"),
            partner=partner,
            watch=watch,
            max_turns=max_turns or (saved.acting.max_turns if saved else None),
        )


@contextmanager
def open_partner(
    agent: str | None, checkpoint: str, environment: str
) -> Iterator[tuple[TrainedAgent | None, SavedAgent | None]]:
    """The agent, and how it acts; None without one."""
    if agent is None:
        yield None, None
        return
    from agentrl_components.storage.scratch import ScratchFolder
    from agentrl_pipelines.local.agent import TrainedAgent, fetch_agent

    with ScratchFolder() as scratch:
        saved = fetch_agent(agent, checkpoint, environment, scratch)
        partner = TrainedAgent(saved)
        try:
            yield partner, saved
        finally:
            partner.close()
