"""The actions that AgentGym offers, and why it refuses others.

Numbers on the menu count the objects of a name that can be *reached*; numbers in the description
count those that are *visible*. AgentGym does so, and compatibility needs it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from agentrl_envs.environments.babyai.actions import GO_TO, OPEN_THROUGH, THROUGH
from agentrl_envs.environments.babyai.field_of_view import STEP
from agentrl_envs.environments.babyai.pathfinding import (
    DROP,
    FORWARD,
    LEFT,
    PICK_UP,
    RIGHT,
    TOGGLE,
)
from agentrl_envs.environments.babyai.published.routes import Routes
from agentrl_envs.environments.babyai.published.sight import Seen, Sight

CHECK = "check available actions"
PICKUP = "pickup"
BARRIER = "There is a barrier in front of you, you can't move forward."
NO_ROOM = "You cannot drop the object, as there is already an object in front of you."
EMPTY_HANDED = "You cannot drop the object, as you are not carrying anything."
UNKNOWN = "The action is not recognized. Please check valid actions."
NO_CHANGE = "No change in state."

Plan = tuple[int, ...]
Plans = dict[str, Plan]


class Menu(NamedTuple):
    """What can be done now."""

    plans: Plans
    """The primitive actions of each action offered, in AgentGym's order. Empty: nothing changes."""
    refusals: dict[str, str]
    """The reason for actions that could be expected here but are not offered."""


def menu(sight: Sight) -> Menu:
    """The menu for a view."""
    found = Menu({"turn left": (LEFT,), "turn right": (RIGHT,)}, {})
    routes = Routes(sight)
    if sight.barrier is None or sight.barrier[0] > 1:
        found.plans["move forward"] = (FORWARD,)
    else:
        found.refusals["move forward"] = BARRIER
    if sight.load is None:
        things = [each for each in sight.things if each.kind != "door"]
        _approach(found, routes, things, PICKUP, (PICK_UP,))
        found.refusals["drop"] = EMPTY_HANDED
    elif _room_ahead(sight):
        found.plans["drop"] = (DROP,)
    else:
        found.refusals["drop"] = NO_ROOM
    numbers: Counter[str] = Counter()
    for each in sight.things:
        if each.kind == "door":
            numbers[each.name] += 1
            _door(found, routes, sight, each, f"{each.name} {numbers[each.name]}")
    _approach(found, routes, sight.things, GO_TO, ())
    found.plans[CHECK] = ()
    return found


def _approach(
    found: Menu, routes: Routes, things: tuple[Seen, ...] | list[Seen], verb: str, then: Plan
) -> None:
    """Add the actions that go to each of `things` and do `then`."""
    numbers: Counter[str] = Counter()
    for each in things:
        path = routes.facing(each.cell)
        label = f"{verb} {each.name} {numbers[each.name] + 1}"
        if path is None:
            found.refusals[label] = f"You cannot {label}, as there is no path leading to it."
        else:
            numbers[each.name] += 1
            found.plans[label] = (*path, *then)


def _door(found: Menu, routes: Routes, sight: Sight, door: Seen, label: str) -> None:
    """Add the actions on one door."""
    through, toggle = f"{THROUGH} {label}", f"{OPEN_THROUGH} {label}"
    if " open " in door.name:
        path = routes.to(door.cell)
        if path is None:
            found.refusals[through] = f"You cannot {through}, as there is no path leading to it."
        else:
            found.plans[through] = path
        return
    if " closed " in door.name:
        found.refusals[through] = (
            f"You cannot {through}, as it is closed. You should toggle it first."
        )
    elif (why := _no_key(sight, door)) is not None:
        found.refusals[toggle] = f"You cannot {toggle}, as {why}."
        return
    path = routes.facing(door.cell)
    if path is None:
        found.refusals[toggle] = f"You cannot {toggle}, as there is no path leading to it."
        return
    found.plans[toggle] = (*path, TOGGLE, FORWARD)
    if not path:
        found.plans["toggle"] = (TOGGLE,)


def _no_key(sight: Sight, door: Seen) -> str | None:
    """Why a locked door cannot be opened; None if it can."""
    if sight.load is None or sight.load.type != "key":
        return "you are not carrying a key"
    if sight.load.color != door.color:
        return "the color of the key you are carrying does not match the color of door"
    return None


def _room_ahead(sight: Sight) -> bool:
    (x, y), (dx, dy) = sight.here, STEP[sight.heading]
    return (x + dx, y + dy) not in sight.blocked
