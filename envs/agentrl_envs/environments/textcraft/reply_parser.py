"""Parses an agent's reply. Nothing that an agent writes is evaluated as code.

    get 3 oak logs                          the count may be left out where the form allows it
    craft 4 stick using 2 oak planks        the count of the product may be left out
    craft oak sign using 6 oak planks, 1 stick
    inventory

A reply is a bare command or ReAct: `Thought: ...`, then one `Action: ...`. Letter case,
underscores for spaces, `minecraft:` before a name, quotes around a command and a full stop after it
are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ACTION = re.compile(r"Action:[^\S\n]*\n?([^\n]*)")
_GET = re.compile(r"get (?:([0-9]+) )?(.+)")
_CRAFT = re.compile(r"craft (?:([0-9]+) )?(.+?)(?: using (.+))?")
_NEED = re.compile(r"([0-9]+) (.+)")
_NEXT_NEED = re.compile(r" ?, ?| (?=[0-9])")
_MAX_CHARS = 600
"""Characters of a command. The longest valid one has far fewer."""
_MAX_DIGITS = 3
"""Digits of a count."""

ONE_ACTION = "Error: Only one 'Action' is allowed per response. Please adjust your response."


@dataclass(frozen=True, slots=True)
class Get:
    """Take `count` of a raw item; None: no count was given."""

    item: str
    count: int | None


@dataclass(frozen=True, slots=True)
class Craft:
    """Craft an item. `given` None: no ingredients were named."""

    item: str
    count: int | None
    given: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Look:
    """Show the inventory."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Not a command. `message` tells the agent what is one."""

    message: str


Command = Get | Craft | Look | Unreadable


def read(reply: str) -> Command:
    """The one command in a reply."""
    actions = _ACTION.findall(reply)
    if len(actions) > 1:
        return Unreadable(ONE_ACTION)
    text = actions[0] if actions else reply
    if len(text) > _MAX_CHARS:
        return Unreadable("Could not execute that: it is too long for a command.")
    words = " ".join(text.strip(" \t\r\n\"'`*.[]").lower().replace("_", " ").split())
    if not words:
        return Unreadable(
            "Could not execute an empty action. Write one line: Action: get 1 diamond"
        )
    return _command(words)


def _command(words: str) -> Command:
    if words in ("inventory", "look"):
        return Look()
    if match := _GET.fullmatch(words):
        return _get(match[1], match[2])
    if match := _CRAFT.fullmatch(words):
        return _craft(match[1], match[2], match[3])
    return Unreadable(unknown(words))


def unknown(words: str) -> str:
    """The message for `words` that are no command."""
    return (
        f"Could not execute {words[:80]}. Commands are: get [count] [item];"
        " craft [item] using [count] [ingredient], ...; inventory."
    )


def _get(count: str | None, item: str) -> Command:
    if count is not None and not _countable(count):
        return Unreadable(_wrong(f"{count[:8]} {item}"))
    return Get(_name(item), None if count is None else int(count))


def _craft(count: str | None, item: str, needs: str | None) -> Command:
    if count is not None and not _countable(count):
        return Unreadable(_wrong(f"{count[:8]} {item}"))
    made = None if count is None else int(count)
    if needs is None:
        return Craft(_name(item), made, None)
    given: dict[str, int] = {}
    for need in _NEXT_NEED.split(needs):
        match = _NEED.fullmatch(need)
        if match is None or not _countable(match[1]):
            return Unreadable(_wrong(need))
        # The same ingredient named twice is asked for twice.
        name = _name(match[2])
        given[name] = given.get(name, 0) + int(match[1])
    return Craft(_name(item), made, given)


def _countable(digits: str) -> bool:
    return len(digits) <= _MAX_DIGITS and int(digits) > 0


def _name(words: str) -> str:
    return words.strip(" ,").removeprefix("minecraft:").strip().replace(" ", "_")


def _wrong(part: str) -> str:
    return f"Wrong item format: {part[:80]}. Write a count from 1 to 999, then the item."
