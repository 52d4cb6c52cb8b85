"""Plays an environment interactively in the terminal, alone or beside an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rich.markup import escape
from rich.text import Text

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.calls.watch import WATCH
from agentrl_envs.env import Environment, Observation, Split, Step, Task, TaskSet, split_exchange
from agentrl_envs.output.console import Console

MAX_LISTED_ACTIONS = 40
"""Admissible actions that are listed with an observation; `help` lists all of them."""

QUIT = ("quit", "q", "exit")
HELP = ("help", "h", "?")

AUTO = ("auto", "a")
"""Lets the agent play the rest of the episode."""

Ask = Callable[[], str]
"""Reads the next line of input. Raises `EOFError` at the end of input."""


class Partner(Protocol):
    """An agent that plays beside the person."""

    def begin(self, instructions: str, observation: Observation) -> None:
        """Start an episode."""
        ...

    def propose(self, observation: Observation) -> str | None:
        """The agent's reply to the newest observation. None: it can read no more."""
        ...

    def played(self, action: str, observation: Observation) -> None:
        """`action`, its own or the person's, was played and led to `observation`."""
        ...


def play(
    task_set: TaskSet,
    *,
    split: Split,
    index: int,
    console: Console,
    ask: Ask,
    partner: Partner | None = None,
    watch: bool = False,
    max_turns: int | None = None,
) -> Step | None:
    """Play one task to its end. Returns the last step, None if the player quit before the first.

    With a `partner`, an empty line plays its action and `auto` lets it play on alone; `watch` does
    so from the start, asks nothing, and ends the episode where the agent can read no more. The
    episode is cut off after `max_turns`."""
    with code_errors(task_set.name):
        task = task_set.task(split, index)
        environment = task_set.environment()
        instructions, _ = split_exchange(task_set.instructions())
    console.print(f"[bold]{escape(task.id)}[/]  {escape(task.category)}")
    console.print(Text(instructions, style="dim"))
    session = _Session(environment, task_set.name, task)
    try:
        observation = session.reset()
        if not watch:
            console.print(Text(_usage(observation, partner), style="dim"))
        if partner is not None:
            partner.begin(task_set.instructions(), observation)
        episode = _Episode(session, instructions, console, ask, partner, watch, alone=watch)
        return episode.play(observation, max_turns)
    finally:
        environment.close()


class _Session:
    """A session of one task. Raises `CodeError` for errors of the environment's code and
    `ContractError` for its wrong answers."""

    def __init__(self, environment: Environment, name: str, task: Task) -> None:
        self._environment, self._name, self._task = environment, name, task
        self._checker = AnswerChecker(name)

    def reset(self) -> Observation:
        with code_errors(self._name, self._task), WATCH.call(self._name, "reset", self._task):
            return self._checker.reset(self._environment.reset(self._task), self._task)

    def step(self, action: str) -> Step:
        with code_errors(self._name, self._task), WATCH.call(self._name, "step", self._task):
            return self._checker.step(self._environment.step(action))


@dataclass(slots=True)
class _Episode:
    """One episode on the screen."""

    session: _Session
    instructions: str
    console: Console
    ask: Ask
    partner: Partner | None
    watched: bool
    """Nobody is asked for anything."""
    alone: bool
    """The partner plays without asking."""

    def play(self, observation: Observation, max_turns: int | None) -> Step | None:
        """Play to the end. Returns the last step."""
        last, score, turns = None, 0.0, 0
        while last is None or not (last.terminated or last.truncated or turns == max_turns):
            action = self._next_action(observation)
            if action is None:
                self.console.print(_end("cut off", turns, score) if self.watched else "You quit.")
                return last
            last = self.session.step(action)
            observation, score, turns = last.observation, score + last.reward, turns + 1
            if self.partner is not None:
                self.partner.played(action, observation)
        self.console.print(Text(observation.text))
        ending = "solved" if last.success else "ended" if last.terminated else "cut off"
        self.console.print(_end(ending, turns, score))
        return last

    def _next_action(self, observation: Observation) -> str | None:
        """The next action; None: the player quits, or the agent that is watched has none."""
        proposed = self.partner.propose(observation) if self.partner is not None else None
        self._show(observation, proposed)
        if self.alone and proposed is not None:
            return proposed
        return None if self.watched else self._read_action(observation, proposed)

    def _show(self, observation: Observation, proposed: str | None) -> None:
        self.console.print()
        self.console.print(Text(observation.text))
        if not self.alone:
            _list_some_actions(self.console, observation.admissible or ())
        if proposed is not None:
            self.console.print(Text(f"agent: {proposed}", style="bold green"))
        elif self.partner is not None:
            rest = "" if self.watched else "; the rest is yours"
            self.console.print(f"The agent's context is full{rest}.", style="yellow")

    def _read_action(self, observation: Observation, proposed: str | None) -> str | None:
        """The person's choice; None: the player quits. Input that is no action (help, a number that
        is not listed) is answered here and costs no turn."""
        admissible = observation.admissible or ()
        usage = _usage(observation, self.partner)
        while True:
            try:
                reply = self.ask().strip()
            except EOFError:
                return None
            if reply in admissible:
                return reply
            if reply.lower() in QUIT:
                return None
            if proposed is not None and (not reply or reply.lower() in AUTO):
                self.alone = bool(reply)
                return proposed
            if reply.lower() in HELP:
                _show_help(self.console, observation, usage, self.instructions)
            elif not reply:
                self.console.print(Text(usage, style="dim"))
            elif admissible and reply.isascii() and reply.isdecimal():
                number = int(reply) if len(reply) < 10 else 0
                if 1 <= number <= len(admissible):
                    return admissible[number - 1]
                self.console.print(f"There is no action {reply[:10]}; type 1 to {len(admissible)}.")
            else:
                return reply


def _end(ending: str, turns: int, score: float) -> str:
    return f"[bold]{ending}[/] after {turns} turns, score {score:g}"


def _usage(observation: Observation, partner: Partner | None) -> str:
    what = "an action or its number" if observation.admissible else "an action"
    if partner is None:
        return f"Type {what}, help, or quit."
    return f"Press Enter to play the agent's action, or type auto, {what}, help, or quit."


def _list_some_actions(console: Console, admissible: tuple[str, ...]) -> None:
    _list_actions(console, admissible[:MAX_LISTED_ACTIONS])
    if len(admissible) > MAX_LISTED_ACTIONS:
        rest = len(admissible) - MAX_LISTED_ACTIONS
        console.print(f"  and {rest} more; help lists them", style="dim")


def _show_help(console: Console, observation: Observation, usage: str, instructions: str) -> None:
    console.print(Text(usage))
    if instructions:
        console.print(Text(instructions, style="dim"))
    _list_actions(console, observation.admissible or ())


def _list_actions(console: Console, actions: tuple[str, ...]) -> None:
    for number, action in enumerate(actions, start=1):
        console.print(Text(f"  {number:>2}  {action}", style="cyan"))
