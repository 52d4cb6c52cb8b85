"""AgentGym's text form: ScienceWorld's English, and replies of a thought and an action."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from agentrl_envs.env import opening_exchange
from agentrl_envs.environments.sciworld.text_form import Parsed, View

INSTRUCTIONS = """\
You are an agent in a science world. In every round you are given an observation, and you answer \
with one action that brings you closer to the goal of your task. OBJ is the name of an object, LOC \
that of a place. The actions are:
- open OBJ, close OBJ: open or close a container or a door
- activate OBJ, deactivate OBJ: turn a device on or off
- connect OBJ to OBJ: connect electrical components
- disconnect OBJ: disconnect electrical components
- use OBJ, use OBJ on OBJ: use a device or an item
- look around: describe the room
- look at OBJ: describe an object in detail
- look in OBJ: describe what is in a container
- examine OBJ: describe an object
- read OBJ: read a note or a book
- move OBJ to OBJ: move an object into a container
- pick up OBJ: move an object to the inventory
- put down OBJ: drop an item of the inventory
- pour OBJ into OBJ: pour a liquid into a container
- dunk OBJ into OBJ: dunk a container into a liquid
- mix OBJ: mix what is in a container chemically
- go to LOC: move to another place
- eat OBJ: eat food
- flush OBJ: flush a toilet
- focus on OBJ: signal intent on an object of the task; the wrong object fails the task
- wait: do nothing for 10 iterations
- wait1: do nothing for 1 iteration
- task: describe the task
- inventory: list what you carry
Where an action could mean several objects you are asked for the number of one; answer with it.
Answer in this form:
Thought:
your thoughts.

Action:
your next action"""

REPLY = "OK. I'll follow your instructions and try my best to solve the task."
"""The reply to the instructions where they are a user message."""

MAX_COMMAND_CHARS = 300
"""Longer commands are refused: no command of ScienceWorld is nearly as long."""


class AgentGym:
    """The `agentgym` text form. `strict`: AgentGym's rules, see `SciWorldOptions.compat`."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def instructions(self) -> str:
        return opening_exchange(INSTRUCTIONS, REPLY) if self._strict else INSTRUCTIONS

    def vocabulary(self) -> tuple[str, ...] | None:
        return None  # ScienceWorld's English

    def first(self, goal: str, look: str, simulator: Any) -> View:
        return View(text=f"{goal}\n{settled(look)}", menu=None)

    def later(self, answer: str, shown: View, simulator: Any) -> View:
        return View(text=settled(answer), menu=None)

    def refused(self, problem: str, shown: View) -> View:
        return View(text=problem, menu=None)

    def parse(self, reply: str, shown: View) -> Parsed:
        """What follows the last `Action:`, as one line without control characters."""
        _, mark, action = reply.rpartition("Action:")
        command = " ".join(action.split()).removesuffix("</s>").strip() if mark else ""
        playable = command.isprintable() and len(command) <= MAX_COMMAND_CHARS
        if playable and (command or self._strict):
            return Parsed(commands=(command,))
        reason = "Your reply has no action that can be played" if command else "No action was found"
        return Parsed(
            (),
            f"{reason}. Answer in the form:\nThought:\nyour thoughts.\n\nAction:\nyour next action",
        )


def settled(text: str) -> str:
    """ScienceWorld's text with objects of one name in the order of their descriptions. ScienceWorld
    lists objects by name; the order of two cups differs from one JVM to the next."""
    runs = groupby(text.split("\n"), key=_name)
    return "\n".join(line for name, run in runs for line in (sorted(run) if name else run))


def _name(line: str) -> str:
    """The name of the object that a line of a list describes; empty for other lines."""
    return line.partition(" (")[0] if line.startswith("\t") else ""
