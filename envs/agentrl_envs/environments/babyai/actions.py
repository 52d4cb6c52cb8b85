"""What the agent can do now: every valid action text and the primitive actions it stands for.

One macro action is one turn. All that a plan walks over is seen and free, so a plan that is on the
menu works. What is not on the menu has a reason, a `Refusal`.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from typing import Any, NamedTuple

from agentrl_envs.environments.babyai.field_of_view import HERE, SIZE, Thing, View
from agentrl_envs.environments.babyai.game import DROP, FORWARD, LEFT, PICK_UP, RIGHT, TOGGLE
from agentrl_envs.environments.babyai.pathfinding import approach

GO_TO, TAKE, THROUGH, OPEN_THROUGH = "go to", "pick up", "go through", "toggle and go through"
MOST_ALIKE = 9
"""Things of one name are numbered from 1, the nearest first; beyond this many they go unnamed."""


class Refusal(Enum):
    """Why an action is not on the menu."""

    UNKNOWN = auto()
    """No such action, or nothing of that name in sight."""
    SEVERAL = auto()
    """The reply holds more than one action."""
    NO_WAY = auto()
    """Something stands in the way."""
    NO_KEY = auto()
    WRONG_KEY = auto()
    CLOSED = auto()
    """The door must be toggled first."""
    BLOCKED = auto()
    """The next cell is taken."""
    NO_ROOM = auto()
    """What is carried cannot be dropped into the next cell."""
    EMPTY_HANDED = auto()
    FULL = auto()
    """Something is carried already."""
    NO_CHANGE = auto()
    """The agent is there already."""


class Plan(NamedTuple):
    """One entry of the menu."""

    steps: tuple[int, ...]
    verb: str
    it: Any
    """minigrid's object that the action is about, or None."""


class Sight(NamedTuple):
    """A view in the words of one text form."""

    view: View
    labels: tuple[str, ...]
    """By thing: its name and number, `red ball 1`."""
    menu: dict[str, Plan]


def sight(view: View, names: tuple[str, ...], take: str) -> Sight:
    """Number the things, whose `names` a text form chose, and lay out the menu. `take` is the
    form's verb for picking up."""
    count: Counter[str] = Counter()
    labels: list[str] = []
    for name in names:
        count[name] += 1
        labels.append(f"{name} {count[name]}" if count[name] <= MOST_ALIKE else "")
    menu = _own_moves(view)
    for thing, label in zip(view.things, labels, strict=True):
        if label:
            _about(menu, view, thing, label, take)
    return Sight(view, tuple(labels), menu)


def _own_moves(view: View) -> dict[str, Plan]:
    """The actions that name nothing."""
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
    """Add the actions about one thing."""
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
    """Whether toggling `it` does something: a box, or a door that is not locked against `load`."""
    if it.type == "door":
        return not it.is_locked or fits(it, load)
    return bool(it.type == "box")


def fits(door: Any, load: Any) -> bool:
    """Whether what is carried is the door's key."""
    return load is not None and load.type == "key" and load.color == door.color


def refusal(seen: Sight, action: str, take: str) -> Refusal:
    """Why `action`, which is not on the menu, cannot be done."""
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
