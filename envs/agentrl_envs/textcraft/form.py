"""The two forms in which the world is put into words."""

from __future__ import annotations

from typing import Protocol

from agentrl_envs.errors import TaskError
from agentrl_envs.textcraft.recipe import Recipe
from agentrl_envs.textcraft.workshop import Outcome, Workshop

INSTRUCTIONS = (
    "You craft items in Minecraft with the crafting commands that you are shown, and no others."
    ' Each turn, answer with one thought and one action:\n"Thought: your reasoning\nAction: your'
    ' command"\nThere are three commands:\n'
    "- get [count] [item] takes items that cannot be crafted, e.g. get 2 oak logs\n"
    "- craft [count] [item] using [count] [ingredient], ... carries out one crafting command"
    " once, with exactly its counts, e.g. craft 1 golden carrot using 8 gold nugget, 1 carrot\n"
    "- inventory lists what you hold\n"
    'For a generic ingredient such as "planks" any special kind will do, e.g. dark oak planks.'
)
"""What an agent is told once, in AgentGym's form."""

_NO_OPENING = "observation: holds no goal: {!r}; give the first one of an episode"


class Form(Protocol):
    """How a workshop is described, and how commands are written."""

    names_ingredients: bool
    """Whether a craft command must name its ingredients."""

    def opening(self, workshop: Workshop) -> str:
        """The first observation."""
        ...

    def telling(self, outcome: Outcome, workshop: Workshop) -> str:
        """The observation after a command."""
        ...

    def get(self, item: str, count: int) -> str:
        """The command that takes `count` of `item`."""
        ...

    def craft(self, recipe: Recipe, spent: dict[str, int], workshop: Workshop) -> str:
        """The command that carries out `recipe` with the items `spent`."""
        ...

    def item(self, name: str) -> str:
        """How an item is named."""
        ...

    def looks(self) -> tuple[str, ...]:
        """The commands that change nothing."""
        ...

    def relabel(self, opening: str, goal: str) -> str:
        """The first observation, had the goal been `goal` (such as `craft stick`). Raises
        `TaskError` when `opening` is none."""
        ...


class AgentGymForm:
    """AgentGym's commands and wording."""

    names_ingredients = True

    def opening(self, workshop: Workshop) -> str:
        lines = "\n".join(
            f"craft {recipe.count} {_words(recipe.makes)} using {_list(dict(recipe.needs))}"
            for recipe in workshop.recipes
        )
        return f"Crafting commands:\n{lines}\n\nGoal: craft {_words(workshop.goal)}."

    def telling(self, outcome: Outcome, workshop: Workshop) -> str:
        if outcome.kind == "got":
            return f"Got {outcome.count} {_words(outcome.item)}"
        if outcome.kind == "crafted":
            return f"Crafted {outcome.count} minecraft:{outcome.item}"
        if outcome.kind == "inventory":
            held = " ".join(f"[{_words(item)}] ({n})" for item, n in workshop.held.items())
            return f"Inventory: {held or 'You are not carrying anything.'}"
        return outcome.message

    def get(self, item: str, count: int) -> str:
        return f"get {count} {_words(item)}"

    def craft(self, recipe: Recipe, spent: dict[str, int], workshop: Workshop) -> str:
        return f"craft {recipe.count} {_words(recipe.makes)} using {_list(spent)}"

    def item(self, name: str) -> str:
        return _words(name)

    def looks(self) -> tuple[str, ...]:
        return ("inventory",)

    def relabel(self, opening: str, goal: str) -> str:
        before, mark, _ = opening.rpartition("\n\nGoal: ")
        if not mark:
            raise TaskError(_NO_OPENING.format(opening[:80]))
        return f"{before}\n\nGoal: {goal}."


class TerseForm:
    """One line, one word an item, and the inventory in every observation.

    craft 1 axe using 2 plate 1 rod ; craft 2 plate using 1 iron ; goal craft axe ; have nothing
    got 1 iron ; have 1 iron
    crafted 2 plate ; have 2 plate
    cannot ; have 2 plate

    An item that one recipe shown makes is crafted by name (`craft plate`); where there are several
    recipes, the ingredients are named too. Counts above `most` read `many`.
    """

    names_ingredients = False
    words = ("craft", "using", "get", "goal", "have", "nothing", "got", "crafted", "cannot", ";")
    many = "many"

    def __init__(self, most: int) -> None:
        self.most = most

    def opening(self, workshop: Workshop) -> str:
        lines = " ; ".join(
            f"craft {recipe.count} {recipe.makes} using {_pairs(recipe.needs)}"
            for recipe in workshop.recipes
        )
        return f"{lines} ; goal craft {workshop.goal} ; {self._have(workshop)}"

    def telling(self, outcome: Outcome, workshop: Workshop) -> str:
        have = self._have(workshop)
        if outcome.kind in ("got", "crafted"):
            return f"{outcome.kind} {self._number(outcome.count)} {outcome.item} ; {have}"
        return have if outcome.kind == "inventory" else f"cannot ; {have}"

    def get(self, item: str, count: int) -> str:
        return f"get {count} {item}"

    def craft(self, recipe: Recipe, spent: dict[str, int], workshop: Workshop) -> str:
        if len(workshop.by_item[recipe.makes]) == 1:
            return f"craft {recipe.makes}"
        return f"craft {recipe.makes} using {_pairs(recipe.needs)}"

    def item(self, name: str) -> str:
        return name

    def looks(self) -> tuple[str, ...]:
        return ()

    def relabel(self, opening: str, goal: str) -> str:
        before, mark, after = opening.rpartition(" ; goal ")
        if not mark:
            raise TaskError(_NO_OPENING.format(opening[:80]))
        return f"{before} ; goal {goal} ; {after.partition(' ; ')[2]}"

    def _have(self, workshop: Workshop) -> str:
        held = (f"{self._number(n)} {item}" for item, n in sorted(workshop.held.items()))
        return f"have {' '.join(held) or 'nothing'}"

    def _number(self, count: int) -> str:
        return str(count) if count <= self.most else self.many


def _words(item: str) -> str:
    return item.replace("_", " ")


def _list(needs: dict[str, int]) -> str:
    return ", ".join(f"{count} {_words(name)}" for name, count in needs.items())


def _pairs(needs: tuple[tuple[str, int], ...]) -> str:
    return " ".join(f"{count} {name}" for name, count in needs)
