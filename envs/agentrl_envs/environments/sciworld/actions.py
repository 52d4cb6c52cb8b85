"""The terse form's list of actions, computed from what is in sight.

ScienceWorld can list its valid actions itself, but needs 30 to 140 ms for some 400 of them, most of
which no task needs. Here the names in sight are asked for (0.5 ms) and put into the templates that
the kind of task needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

MAX_ACTIONS = 120
"""Actions in a list at most; what comes later in `_entries` is left out."""

Kind = Literal["observe", "find", "circuit", "matter"]
"""What a task needs: looking at animals, finding and carrying things, electrical connections, or
changing matter."""

ROOMS = frozenset({
    "art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen",
    "living room", "outside", "workshop",
})  # fmt: skip
_IGNORED = frozenset({"agent", "air", "door", "ground"})
_VESSELS = ("pot", "cup", "bowl", "jug", "jar", "box")
_PLACES = frozenset({
    "sink", "stove", "oven", "freezer", "fridge", "table", "counter", "cupboard", "blast furnace",
    "fire pit", "bathtub", "ultra low temperature freezer",
})  # fmt: skip
_DEVICES = frozenset({"sink", "stove", "oven", "blast furnace", "bathtub", "switch", "stopwatch"})
_TERMINAL = re.compile(r"\b(anode|cathode|terminal)\b")
_DOOR = re.compile(r"^\tA door to the (.+?) \(that is (open|closed)\)", re.MULTILINE)
_ROOM = re.compile(r"(?:room|location) is called the (.+?)\.")
_CARRIED = re.compile(r"^\t(?:an?|the|some) (.+?)(?: \(|, |\.|$)", re.MULTILINE)


class Sight(NamedTuple):
    """What is in sight, by ScienceWorld's names."""

    room: str
    doors: dict[str, bool]
    """Rooms next to this one, and whether the door is open."""
    things: tuple[str, ...]
    """Objects that are not carried, without terminals."""
    terminals: tuple[str, ...]
    carried: tuple[str, ...]


def sight(look: str, names: list[str], inventory: str) -> Sight:
    """Reads ScienceWorld's description of a room and of the inventory. `names` are the names of the
    objects in sight."""
    room = _ROOM.search(look)
    doors = {name: state == "open" for name, state in _DOOR.findall(look)}
    things = [name for name in sorted(set(names)) if not _is_scenery(name)]
    return Sight(
        room=room.group(1) if room else "nowhere",
        doors=doors,
        things=tuple(name for name in things if not _TERMINAL.search(name)),
        terminals=tuple(name for name in things if _TERMINAL.search(name)),
        carried=tuple(dict.fromkeys(_CARRIED.findall(inventory))),
    )


def menu(kind: Kind, seen: Sight) -> dict[str, tuple[str, ...]]:
    """Every listed action, and ScienceWorld's commands for it. A door is opened on the way."""
    listed: dict[str, tuple[str, ...]] = {}
    for action, commands in _entries(kind, seen):
        if len(listed) == MAX_ACTIONS:
            break
        listed.setdefault(action, commands)
    return listed


def _entries(kind: Kind, seen: Sight) -> Iterator[tuple[str, tuple[str, ...]]]:
    for room, is_open in seen.doors.items():
        walk = f"go to {room}"
        yield f"go {room}", (walk,) if is_open else (f"open door to {room}", walk)
    yield "wait", ("wait1",)
    if kind == "observe":
        if seen.room == "outside":  # where the description of these tasks says that the animals are
            yield from ((f"focus {thing}", (f"focus on {thing}",)) for thing in seen.things)
        return
    for item in seen.carried:
        for place in seen.things:
            if place.endswith(" box") or (kind == "matter" and _holds(place)):
                yield f"put {item} in {place}", (f"move {item} to {place}",)
        yield f"focus {item}", (f"focus on {item}",)
    for thing in seen.things:
        yield f"focus {thing}", (f"focus on {thing}",)
    for thing in seen.things:
        yield f"take {thing}", (f"pick up {thing}",)
    if kind == "circuit":
        yield from _connections(seen)
    if kind == "matter":
        yield from _changes(seen)


def _connections(seen: Sight) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Connections of a wire's end to anything but another wire."""
    wires = [each for each in seen.terminals if "wire" in each]
    others = [each for each in seen.terminals if "wire" not in each]
    for thing in seen.things:
        if thing == "switch":
            yield f"activate {thing}", (f"activate {thing}",)
    for wire in wires:
        for other in others:
            yield f"connect {wire} to {other}", (f"connect {wire} to {other}",)
        for thing in seen.things:
            yield f"connect {wire} to {thing}", (f"connect {wire} to {thing} terminal 1",)


def _changes(seen: Sight) -> Iterator[tuple[str, tuple[str, ...]]]:
    for thing in seen.things:
        if thing in _DEVICES:
            yield f"activate {thing}", (f"activate {thing}",)
            yield f"deactivate {thing}", (f"deactivate {thing}",)
        if thing in _PLACES:
            yield f"open {thing}", (f"open {thing}",)
    for thing in seen.things:
        if "thermometer" in seen.carried:
            yield f"measure {thing}", (f"use thermometer on {thing}",)
        if thing.endswith(_VESSELS):
            yield f"mix {thing}", (f"mix {thing}",)
    for item in seen.carried:
        for place in seen.things:
            if _holds(place):
                yield f"pour {item} in {place}", (f"pour {item} into {place}",)


def _holds(name: str) -> bool:
    return name in _PLACES or name.endswith(_VESSELS) or " pot " in name


def _is_scenery(name: str) -> bool:
    return (
        name in ROOMS
        or name in _IGNORED
        or name.endswith(" door")
        or name.startswith(("door to ", "door "))
    )
