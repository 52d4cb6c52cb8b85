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

_WORD = re.compile(r"[a-z0-9-]+")
_FORM_WORDS = (
    "goal at see have nothing ; no go focus take put in wait connect to activate deactivate open "
    "measure mix pour nowhere"
)
UNKNOWN = "something"
"""Stands for every other word."""

# The words of the descriptions and of the names of all objects in training variations of all tasks,
# and of things of their kinds.
_WORDS = """
-10 -100 -25 -50 -75 0 1 10 100 125 150 175 2 20 200 25 250 3 30 300 4 40 5 50 6 60 7 70 75
8 80 9 90 a above abstract acceptable acetate acetic acid actions adult agent air also
aluminum an and animal animals anode ant apple apricot are around art arthur ash austen
avocado axe b baby bamboo banana bat bathroom bathtub battery be bean bear beaver bed
bedroom bee beehive below beowulf bicarbonate black blast blue boat boil boiling book bowl
box boxes brass bread bronze brown bulb butter butterfly buzzer by c caesium called carrot
cat cathode cause celsius ceramic cesium chair chameleon change charles chemistry cherry
chicken chloride chocolate cinnamon circuit closet cloth color combusting common completely
component compounds conan conductive containing copper corn couch counter cow create created
crocodile crossing crow cup cupboard d dandelion darwin dead deer degrees desk determine
dick dog done door dove doyle dragonfly drain drawer drawing duck e earliest egg electric
electrical electrically elephant empty farm fern find finger fire first fish flower focus
foil for fork found foundations foundry fountain fox frankenstein freeze freezer fridge frog
from furnace gallium gas generator giant glass goat gold goose grape grass gray green
green-blue greenhouse grey ground guinea h hallway hamster hatchling height herman hills
hive holmes honey horse ice if in ingredients instructions intermediate inventory iron is it
its j jam jane jar jay jug juice juvenile k kitchen large latest lead lemon lettuce life
light lighter lime lion liquid living lizard located location longest low lush make
marshmallow mary matter mattress meadow measure melt melting melville mercury metal might
moby monkey moon moose moth motor mountain mouse move n nails near next non-living
nonconductive nonrenewable nothing nuclear object of on orange oranges organism origin
outside oven owl paint painting panel parrot part-way pea peach peanut pear people picture
pig pillow pink pit place plant plants plastic platinum playing plum poet point portal pot
potato power powering powers prejudice pride purple rabbit rat recipe red red-orange
renewable reproducing river rolling room rose salt sandwich secondary seed seedling self
sewer shapes shark sheep shelf shelley sherlock shortest shovel silver sink sittable snake
snow soap sodium soil solar solid some source span species spider stage stages starting
state steam steel stopwatch stove studio substance sugar switch table take tall task
temperature terminal that the then thermometer thing tiger timer tin to toad toilet tomato
tortoise tree turn turtle two ultra universe unknown use using violet watch water watering
whale wheat when which white will wind wintery wire with without wolf wollstonecraft wood
workshop yellow yellow-green you your zinc
"""
WORDS = tuple(_WORDS.split())

_DROPPED = """
a actions also an and are around be by cause completely do done first focus for in is it its
life located location move n next of on place possible should span species take task that
the thing to up use when which will with you your
"""
DROPPED = frozenset(_DROPPED.split())
"""Words that the goal is told without."""


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
