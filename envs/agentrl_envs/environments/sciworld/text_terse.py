"""Terse text form for small models: a closed vocabulary, and one word or two for what is there.

    goal find animal with longest life span ; at hallway ; see picture ; have orange
    at outside ; see axe blue jay dove egg ; have orange

Doors are not told: where the agent can go follows from where it is. Names are ScienceWorld's; a
word that is not in the vocabulary reads `something`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agentrl_envs.environments.sciworld.actions import Kind, menu, sight
from agentrl_envs.environments.sciworld.text_form import Parsed, View
from agentrl_envs.environments.sciworld.words import DROPPED, UNKNOWN, WORDS

_WORD = re.compile(r"[a-z0-9-]+")
_FORM_WORDS = (
    "goal at see have nothing ; no go focus take put in wait connect to activate deactivate open "
    "measure mix pour nowhere"
)


class Terse:
    """The `terse` text form."""

    def __init__(self) -> None:
        self._words = frozenset((*_FORM_WORDS.split(), *WORDS))

    def instructions(self) -> str:
        return ""

    def vocabulary(self) -> tuple[str, ...]:
        return tuple(sorted(self._words | {UNKNOWN}))

    def first(self, goal: str, look: str, simulator: Any) -> View:
        words = [word for word in self._told(goal).split() if word not in DROPPED]
        view = self._view(kind_of(goal), look, simulator)
        return view._replace(text=f"goal {' '.join(dict.fromkeys(words))} ; {view.text}")

    def later(self, answer: str, shown: View, simulator: Any) -> View:
        return self._view(shown.kind, simulator.freeActionLook(), simulator)

    def refused(self, problem: str, shown: View) -> View:
        now = shown.text[shown.text.index("at ") :] if "goal " in shown.text else shown.text
        return shown._replace(text=f"no ; {now.removeprefix('no ; ')}")

    def parse(self, reply: str, shown: View) -> Parsed:
        commands = (shown.menu or {}).get(" ".join(reply.lower().split()), ())
        return Parsed(commands, problem="" if commands else "no")

    def _view(self, kind: Kind, look: str, simulator: Any) -> View:
        names = json.loads(simulator.getPossibleObjectReferentLUTJSON()).values()
        seen = sight(look, list(names), simulator.freeActionInventory())
        listed: dict[str, tuple[str, ...]] = {}
        for action, commands in menu(kind, seen).items():
            listed.setdefault(self._told(action), commands)
        things = " ".join(self._told(name) for name in seen.things) or "nothing"
        carried = " ".join(self._told(name) for name in seen.carried) or "nothing"
        text = f"at {self._told(seen.room)} ; see {things} ; have {carried}"
        return View(text=text, menu=listed, kind=kind)

    def _told(self, text: str) -> str:
        words = _WORD.findall(text.lower())
        return " ".join(word if word in self._words else UNKNOWN for word in words)


def kind_of(goal: str) -> Kind:
    """The kind of a task, from ScienceWorld's description."""
    if re.search(r"life span|life stages", goal):
        return "observe"
    if "find a(n)" in goal:
        return "find"
    return "circuit" if re.search(r"conductive|electrical circuit", goal) else "matter"
