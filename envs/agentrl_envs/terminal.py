"""Plays an environment interactively in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from agentrl_envs.env import Environment, Observation, Split, Step, TaskSet, split_exchange

MAX_LISTED_ACTIONS = 40
"""Admissible actions that are listed with an observation; `help` lists all of them."""

QUIT = ("quit", "q", "exit")
HELP = ("help", "h", "?")

Ask = Callable[[], str]
"""Reads the next line of input. Raises `EOFError` at the end of input."""


def play(task_set: TaskSet, *, split: Split, index: int, console: Console, ask: Ask) -> Step | None:
    """Play one task to its end. Returns the last step, None if the player quit before the first."""
    task = task_set.task(split, index)
    environment = task_set.environment()
    console.print(f"[bold]{escape(task.id)}[/]  {escape(task.category)}")
    instructions, _ = split_exchange(task_set.instructions())
    console.print(Text(instructions, style="dim"))
    try:
        observation = environment.reset(task)
        console.print(Text(_usage(observation), style="dim"))
        return _play_episode(environment, observation, instructions, console, ask)
    finally:
        environment.close()


def _play_episode(
    environment: Environment,
    observation: Observation,
    instructions: str,
    console: Console,
    ask: Ask,
) -> Step | None:
    last, score, turns = None, 0.0, 0
    while last is None or not (last.terminated or last.truncated):
        _show(console, observation)
        action = _read_action(observation, instructions, console, ask)
        if action is None:
            console.print("You quit.")
            return last
        last = environment.step(action)
        observation, score, turns = last.observation, score + last.reward, turns + 1
    console.print(Text(observation.text))
    ending = "solved" if last.success else "ended" if last.terminated else "cut off"
    console.print(f"[bold]{ending}[/] after {turns} turns, score {score:g}")
    return last


def _read_action(
    observation: Observation, instructions: str, console: Console, ask: Ask
) -> str | None:
    """The next action; None: the player quits. Input that is no action (help, an empty line, a
    number that is not listed) is answered here and costs no turn."""
    admissible = observation.admissible or ()
    while True:
        try:
            reply = ask().strip()
        except EOFError:
            return None
        if reply in admissible:
            return reply
        if reply.lower() in QUIT:
            return None
        if reply.lower() in HELP:
            _show_help(console, observation, instructions)
        elif not reply:
            console.print(Text(_usage(observation), style="dim"))
        elif admissible and reply.isascii() and reply.isdecimal():
            number = int(reply) if len(reply) < 10 else 0
            if 1 <= number <= len(admissible):
                return admissible[number - 1]
            console.print(f"There is no action {reply[:10]}; type 1 to {len(admissible)}.")
        else:
            return reply


def _usage(observation: Observation) -> str:
    what = "an action or its number" if observation.admissible else "an action"
    return f"Type {what}, help, or quit."


def _show(console: Console, observation: Observation) -> None:
    console.print()
    console.print(Text(observation.text))
    admissible = observation.admissible or ()
    _list_actions(console, admissible[:MAX_LISTED_ACTIONS])
    if len(admissible) > MAX_LISTED_ACTIONS:
        rest = len(admissible) - MAX_LISTED_ACTIONS
        console.print(f"  and {rest} more; help lists them", style="dim")


def _show_help(console: Console, observation: Observation, instructions: str) -> None:
    console.print(Text(_usage(observation)))
    if instructions:
        console.print(Text(instructions, style="dim"))
    _list_actions(console, observation.admissible or ())


def _list_actions(console: Console, actions: tuple[str, ...]) -> None:
    for number, action in enumerate(actions, start=1):
        console.print(Text(f"  {number:>2}  {action}", style="cyan"))
