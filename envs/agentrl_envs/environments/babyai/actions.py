"""Macro actions: every valid action text and the primitive actions that it expands to.

One macro action is one turn. A plan only crosses cells that are visible and free, so every plan of
the menu can be executed. An action that is not on the menu has a `Refusal`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import Any, NamedTuple

from agentrl_envs.environments.babyai.field_of_view import HERE, SIZE, Thing, View
from agentrl_envs.environments.babyai.pathfinding import (
    DROP,
    FORWARD,
    LEFT,
    PICK_UP,
    RIGHT,
    TOGGLE,
    approach,
)

GO_TO, TAKE, THROUGH, OPEN_THROUGH = "go to", "pick up", "go through", "toggle and go through"
MAX_SAME_NAME = 9
"""Objects of one name are numbered from 1, nearest first; further ones get no label."""


class Refusal(Enum):
    """Why an action is not on the menu."""

    UNKNOWN = auto()
    """No such action, or no visible object of that name."""
    SEVERAL = auto()
    """The reply contains more than one action."""
    NO_WAY = auto()
    """Means that there is no free path."""
    NO_KEY = auto()
    WRONG_KEY = auto()
    CLOSED = auto()
    """The door must be toggled first."""
    BLOCKED = auto()
    """The cell ahead is occupied."""
    NO_ROOM = auto()
    """The carried object cannot be dropped into the cell ahead."""
    EMPTY_HANDED = auto()
    FULL = auto()
    """The agent already carries something."""
    NO_CHANGE = auto()
    """The agent is already there."""


class Plan(NamedTuple):
    """One entry of the menu."""

    steps: tuple[int, ...]
    verb: str
    it: Any
    """The minigrid object of the action, or None."""


class Sight(NamedTuple):
    """A view with the labels of one text form."""

    view: View
    labels: tuple[str, ...]
    """Name and number of each thing, such as `red ball 1`; empty beyond `MAX_SAME_NAME`."""
    menu: dict[str, Plan]


def sight(view: View, names: tuple[str, ...], take: str) -> Sight:
    """Labels and menu for a view. `names` are the things' names in a text form, `take` is the
    form's verb for picking up."""
    count: Counter[str] = Counter()
    labels: list[str] = []
    for name in names:
        count[name] += 1
        labels.append(f"{name} {count[name]}" if count[name] <= MAX_SAME_NAME else "")
    menu = _own_moves(view)
    for thing, label in zip(view.things, labels, strict=True):
        if label:
            _about(menu, view, thing, label, take)
    return Sight(view, tuple(labels), menu)


def _own_moves(view: View) -> dict[str, Plan]:
    """The actions without an object."""
    menu = {"turn left": Plan((LEFT,), "", None), "turn right": Plan((RIGHT,), "", None)}
    front = view.front
    if view.free >> (SIZE + HERE) & 1:
        menu["move forward"] = Plan((FORWARD,), "", None)
    if front is not None and _opens(front, view.load):
        menu["toggle"] = Plan((TOGGLE,), "toggle", front)
    if view.load is not None and front is None:
        menu["drop"] = Plan((DROP,), "", None)
    return menu


def _about(menu: dict[str, Plan], view: View, thing: Thing, label: str, take: str) -> None:
    """Add the actions on one thing to the menu."""
    way = approach(view.free, thing.cell)
    if way is None:
        return
    if way:
        menu[f"{GO_TO} {label}"] = Plan(way, GO_TO, thing.it)
    if thing.kind == "door":
        if thing.state == "open":
            menu[f"{THROUGH} {label}"] = Plan((*way, FORWARD, FORWARD), THROUGH, thing.it)
        elif _opens(thing.it, view.load):
            steps = (*way, TOGGLE, FORWARD, FORWARD)
            menu[f"{OPEN_THROUGH} {label}"] = Plan(steps, OPEN_THROUGH, thing.it)
    elif view.load is None and thing.it.can_pickup():
        menu[f"{take} {label}"] = Plan((*way, PICK_UP), TAKE, thing.it)


def _opens(it: Any, load: Any) -> bool:
    """Whether toggling `it` has an effect: a box, or a door that `load` can open."""
    if it.type == "door":
        return not it.is_locked or fits(it, load)
    return bool(it.type == "box")


def fits(door: Any, load: Any) -> bool:
    """Whether `load` is the door's key."""
    return load is not None and load.type == "key" and load.color == door.color


def refusal(seen: Sight, action: str, take: str) -> Refusal:
    """The reason why `action`, which is not on the menu, cannot be executed."""
    view = seen.view
    if action == "move forward":
        return Refusal.BLOCKED
    if action == "drop":
        return Refusal.EMPTY_HANDED if view.load is None else Refusal.NO_ROOM
    if action == "toggle" and view.front is not None and view.front.type == "door":
        return Refusal.NO_KEY
    for verb in (GO_TO, take, OPEN_THROUGH, THROUGH):
        label = action.removeprefix(verb + " ")
        if label != action and label and label in seen.labels:
            return _about_thing(view, verb, view.things[seen.labels.index(label)], take)
    return Refusal.UNKNOWN


def _about_thing(view: View, verb: str, thing: Thing, take: str) -> Refusal:
    is_door = thing.kind == "door"
    if (verb == take and is_door) or (verb in (THROUGH, OPEN_THROUGH) and not is_door):
        return Refusal.UNKNOWN
    if verb == take and view.load is not None:
        return Refusal.FULL
    if verb == THROUGH and thing.state != "open":
        return Refusal.CLOSED
    if verb == OPEN_THROUGH and thing.state == "open":
        return Refusal.UNKNOWN
    if verb == OPEN_THROUGH and not _opens(thing.it, view.load):
        carries_key = view.load is not None and view.load.type == "key"
        return Refusal.WRONG_KEY if carries_key else Refusal.NO_KEY
    way = approach(view.free, thing.cell)
    return Refusal.NO_WAY if way is None else Refusal.NO_CHANGE
