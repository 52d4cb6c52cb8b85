"""Plays an environment interactively in the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from agentrl_envs.env import Observation, Split, Step, TaskSet

MAX_LISTED_ACTIONS = 40
"""Admissible actions that are listed; the others can be typed too."""

Ask = Callable[[], str]
"""Reads the next line of input. Raises `EOFError` at the end of input."""


def play(task_set: TaskSet, *, split: Split, index: int, console: Console, ask: Ask) -> Step | None:
    """Play one task to its end. Returns the last step, None if the player quit before the first."""
    task = task_set.task(split, index)
    environment = task_set.environment()
    console.print(f"[bold]{escape(task.id)}[/]  {escape(task.category)}")
    console.print(Text(task_set.instructions(), style="dim"))
    try:
        observation, last, score, turns = environment.reset(task), None, 0.0, 0
        while last is None or not (last.terminated or last.truncated):
            _show(console, observation)
            try:
                reply = _chosen(ask().strip(), observation)
            except EOFError:
                reply = "q"
            if reply == "q":
                console.print("You left.")
                return last
            last = environment.step(reply)
            observation, score, turns = last.observation, score + last.reward, turns + 1
        console.print(Text(observation.text))
        ending = "solved" if last.success else "ended" if last.terminated else "cut off"
        console.print(f"[bold]{ending}[/] after {turns} turns, score {score:g}")
        return last
    finally:
        environment.close()


def _show(console: Console, observation: Observation) -> None:
    console.print()
    console.print(Text(observation.text))
    admissible = observation.admissible or ()
    for number, action in enumerate(admissible[:MAX_LISTED_ACTIONS], start=1):
        console.print(Text(f"  {number:>2}  {action}", style="cyan"))
    if len(admissible) > MAX_LISTED_ACTIONS:
        console.print(f"  and {len(admissible) - MAX_LISTED_ACTIONS} more", style="dim")


def _chosen(reply: str, observation: Observation) -> str:
    """The action that a number stands for, where it is no action itself; else the reply."""
    admissible = observation.admissible or ()
    if reply in admissible or not (reply.isascii() and reply.isdecimal()):
        return reply
    number = int(reply)
    return admissible[number - 1] if 1 <= number <= len(admissible) else reply
