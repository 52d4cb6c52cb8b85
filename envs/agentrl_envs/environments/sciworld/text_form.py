"""What a text form of SciWorld implements."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from agentrl_envs.environments.sciworld.actions import Kind


class View(NamedTuple):
    """What an agent is shown."""

    text: str
    menu: dict[str, tuple[str, ...]] | None
    """Every admissible action, and ScienceWorld's commands that it stands for. None: the form does
    not list actions."""
    kind: Kind = "find"
    """The kind of the task, for the list of actions."""


class Parsed(NamedTuple):
    """A reply of the agent."""

    commands: tuple[str, ...]
    """ScienceWorld's commands, in order; the next is given while the last was understood."""
    problem: str = ""
    """What is wrong with the reply, if there is no command in it."""


class TextForm(Protocol):
    """Renders a simulator as text and reads replies. `simulator` is py4j's proxy, whose lock the
    caller holds."""

    def instructions(self) -> str: ...

    def vocabulary(self) -> tuple[str, ...] | None: ...

    def first(self, goal: str, look: str, simulator: Any) -> View:
        """The first observation. `goal` is ScienceWorld's task description, `look` its description
        of the room."""
        ...

    def later(self, answer: str, shown: View, simulator: Any) -> View:
        """The observation after commands; `answer` is ScienceWorld's answer to the last one,
        `shown` the observation before."""
        ...

    def refused(self, problem: str, shown: View) -> View:
        """The observation after a reply that was not understood; `shown` is the one before it."""
        ...

    def parse(self, reply: str, shown: View) -> Parsed:
        """The commands in a reply to `shown`."""
        ...
