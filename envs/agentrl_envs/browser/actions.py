"""WebArena's actions: their types, their spelling, and the parser of replies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Click:
    element: int


@dataclass(frozen=True, slots=True)
class Hover:
    element: int


@dataclass(frozen=True, slots=True)
class Type:
    element: int
    text: str
    enter: bool = True
    """Whether Enter is pressed afterwards."""


@dataclass(frozen=True, slots=True)
class Press:
    keys: str
    """A key or a combination, such as `Control+a`."""


@dataclass(frozen=True, slots=True)
class Scroll:
    direction: Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Goto:
    url: str


@dataclass(frozen=True, slots=True)
class TabFocus:
    tab: int


@dataclass(frozen=True, slots=True)
class Plain:
    """An action without arguments."""

    name: Literal["new_tab", "close_tab", "go_back", "go_forward"]


@dataclass(frozen=True, slots=True)
class Stop:
    answer: str = ""


Action = Click | Hover | Type | Press | Scroll | Goto | TabFocus | Plain | Stop

EXAMPLES = (
    "click [7], type [7] [text] [1], hover [7], press [Control+a], scroll [down], goto [url], "
    "new_tab, tab_focus [0], close_tab, go_back, go_forward, stop [answer]"
)

_FORMS = {
    name: re.compile(pattern, re.DOTALL)
    for name, pattern in {
        "click": r"\[?(\d{1,6})\]?",
        "hover": r"\[?(\d{1,6})\]?",
        "type": r"\[?(\d{1,6})\]? ?\[(.*?)\](?: ?\[([01])\])?",
        "press": r"\[?([^\[\]]{1,40})\]?",
        "scroll": r"\[?(up|down)\]?",
        "goto": r"\[?([^\s\[\]]{1,2000})\]?",
        "tab_focus": r"\[?(\d{1,3})\]?",
        "new_tab": "",
        "close_tab": "",
        "go_back": "",
        "go_forward": "",
        "stop": r"(?:\[(.*)\]|([^\[].*))?",
    }.items()
}


def parse_action(text: str) -> Action | None:
    """The action that `text` spells; None: it spells none."""
    name, _, rest = text.strip().partition(" ")
    if "[" in name:  # `click[7]`
        name, bracket, tail = text.strip().partition("[")
        rest = bracket + tail
    form = _FORMS.get(name)
    found = form.fullmatch(rest.strip()) if form else None
    return _build(name, found) if found else None


def _build(name: str, found: re.Match[str]) -> Action | None:
    match name:
        case "click":
            return Click(int(found[1]))
        case "hover":
            return Hover(int(found[1]))
        case "type":
            return Type(int(found[1]), found[2], found[3] != "0")
        case "press":
            return Press(found[1].strip())
        case "scroll":
            return Scroll("up" if found[1] == "up" else "down")
        case "goto":
            return Goto(found[1])
        case "tab_focus":
            return TabFocus(int(found[1]))
        case "stop":
            return Stop((found[1] or found[2] or "").strip())
        case "new_tab" | "close_tab" | "go_back" | "go_forward":
            return Plain(name)
    return None


def spell(action: Action) -> str:
    """WebArena's spelling of an action."""
    match action:
        case Click(element):
            return f"click [{element}]"
        case Hover(element):
            return f"hover [{element}]"
        case Type(element, text, enter):
            return f"type [{element}] [{text}] [{int(enter)}]"
        case Press(value) | Scroll(value) | Goto(value):
            return f"{type(action).__name__.lower()} [{value}]"
        case TabFocus(tab):
            return f"tab_focus [{tab}]"
        case Plain(name):
            return name
        case Stop(answer):
            return f"stop [{answer}]"
