"""AgentGym's English text form with ReAct replies, for pretrained models.

    Thought: The ball is near.
    Action: go to red ball 1

A reply that consists of an action alone is valid too, so that decoding can be constrained to the
menu.
"""

from __future__ import annotations

import re

from agentrl_envs.environments.babyai.actions import (
    GO_TO,
    OPEN_THROUGH,
    TAKE,
    THROUGH,
    Refusal,
    Sight,
)
from agentrl_envs.environments.babyai.field_of_view import Thing
from agentrl_envs.errors import TaskError

CHECK = "check available actions"
_ACTION = re.compile(r"Action:\s*([^\n]*)")
_STRANGE = re.compile(r"[^a-z0-9 ]+")
_GOAL = "Your goal: "

INSTRUCTIONS = f"""\
You are placed in a room and have a goal to reach. Each turn you are told what you see, and you \
answer with a thought and one action.

The actions are:
- turn left
- turn right
- move forward
- {GO_TO} <obj> <id>
- {{take}} <obj> <id>
- drop: put down what you carry, in front of you.
- {THROUGH} <door> <id>: the door must be open.
- {OPEN_THROUGH} <door> <id>: the door is closed, or it is locked and you carry a key of its color.
- toggle: open or close the door right in front of you, or open a box there.
- {CHECK}

Answer in this form:
Thought:
<your thought>

Action:
<your action>"""

_REFUSED = {
    Refusal.UNKNOWN: "The action is not recognized. Please check valid actions.",
    Refusal.SEVERAL: "Error: Only one 'Action' is allowed per response. "
    "Please adjust your response.",
    Refusal.NO_WAY: "You cannot {action}, as there is no path leading to it.",
    Refusal.NO_KEY: "You cannot {action}, as you are not carrying a key.",
    Refusal.WRONG_KEY: "You cannot {action}, as the color of the key you are carrying does not "
    "match the color of door.",
    Refusal.CLOSED: "You cannot {action}, as it is closed. You should toggle it first.",
    Refusal.BLOCKED: "There is a barrier in front of you, you can't move forward.",
    Refusal.NO_ROOM: "You cannot drop the object, as there is already an object in front of you.",
    Refusal.EMPTY_HANDED: "You cannot drop the object, as you are not carrying anything.",
    Refusal.FULL: "You cannot {action}, as you are already carrying something. Drop it first.",
    Refusal.NO_CHANGE: "No change in state.",
}


class AgentGym:
    """The `agentgym` text form."""

    extra: tuple[str, ...] = (CHECK,)
    take: str = TAKE

    def instructions(self) -> str:
        return INSTRUCTIONS.format(take=TAKE)

    def vocabulary(self) -> None:
        return None

    def name(self, thing: Thing) -> str:
        return " ".join(filter(None, (thing.color, thing.state, thing.kind)))

    def goal(self, mission: str) -> str:
        return mission

    def first(self, goal: str, seen: Sight) -> str:
        return f"{_GOAL}{goal}\n{_description(seen)}{_available(seen)}"

    def later(self, seen: Sight, ended: str) -> str:
        closing = {"done": "\n The task is completed.", "failed": "\n The task has failed."}
        return f"{_description(seen)}{closing.get(ended, '')}{_available(seen)}"

    def refused(self, seen: Sight, action: str, why: Refusal) -> str:
        message = _REFUSED[why].format(action=action)
        if action == CHECK:
            message = "You can take the following actions: " + ", ".join((*seen.menu, CHECK))
        return message + _available(seen)

    def parse(self, reply: str) -> str | Refusal:
        found = _ACTION.findall(reply)
        if len(found) > 1:
            return Refusal.SEVERAL
        action = " ".join(_STRANGE.sub("", (found[0] if found else reply).lower()).split())
        if action.startswith("pickup "):
            return f"{TAKE} {action[7:]}"
        return action

    def relabel(self, observation: str, goal: str) -> str:
        head, newline, rest = observation.partition("\n")
        if not newline or not head.startswith(_GOAL):
            raise TaskError(f"observation: holds no goal: {observation[:80]!r}; give a first one")
        return f"{_GOAL}{self.goal(goal)}\n{rest}"


def _available(seen: Sight) -> str:
    listed = ", ".join(f'"{action}"' for action in (*seen.menu, CHECK))
    return f"\nAvailable actions: [{listed}]"


def _description(seen: Sight) -> str:
    view = seen.view
    things = [
        f"There is a {label} {_place(thing)} "
        for thing, label in zip(view.things, seen.labels, strict=True)
        if label
    ]
    text = "In front of you in this room, you can see several objects: " + "".join(things)
    if not things:
        text = "You cannot see any objects within sight. "
    text += "The room has walls around you. "
    if (barrier := _barrier(seen)) is not None:
        text += f"You are facing a {barrier[1]} {barrier[0]} steps away. "
    if view.load is None:
        return text + "You are not carrying anything."
    return text + f"You are carrying a {view.load.color} {view.load.type}."


def _place(thing: Thing) -> str:
    if thing.side == 0:
        return f"right in front of you {thing.ahead} steps away."
    side = "right" if thing.side > 0 else "left"
    return f"{thing.ahead} steps in front of you and {abs(thing.side)} steps to your {side}."


def _barrier(seen: Sight) -> tuple[int, str] | None:
    """The nearest wall or box straight ahead."""
    view = seen.view
    ahead = [
        (thing.ahead, "box") for thing in view.things if thing.kind == "box" and thing.side == 0
    ]
    if view.wall_ahead is not None:
        ahead.append((view.wall_ahead, "wall"))
    return min(ahead, default=None)
