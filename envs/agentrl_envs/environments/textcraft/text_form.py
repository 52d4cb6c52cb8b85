"""The two text forms of TextCraft."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from agentrl_envs.environments.textcraft.crafting import Outcome, Workshop
from agentrl_envs.environments.textcraft.recipes import Recipe
from agentrl_envs.errors import TaskError

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
"""The system prompt of AgentGym's form."""

_NO_OPENING = "observation: holds no goal: {!r}; give the first one of an episode"


_EMPTY = "have nothing"


class Form(Protocol):
    """Renders a workshop as text and spells commands."""

    spells_out: bool
    """Whether a get must give its count, and a craft its ingredients."""

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
        """The command that executes `recipe` with the items `spent`."""
        ...

    def item(self, name: str) -> str:
        """The name of an item in this form."""
        ...

    def looks(self) -> tuple[str, ...]:
        """The commands that change nothing."""
        ...

    def relabel(self, opening: str, goal: str) -> str:
        """The first observation `opening` with the goal replaced by `goal` (such as `craft stick`).
        Raises `TaskError` if `opening` is not a first observation."""
        ...


class AgentGymForm:
    """AgentGym's commands and wording."""

    spells_out = True

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
    """One line, one word an item; what is held, and what can be made of it, in every observation.

    goal craft axe ; axe using 2 plate rod ; 2 plate using iron ; have nothing
    have iron ; can plate
    have 2 plate
    cannot ; have 2 plate

    A count of one is not said, and what a command did can be seen from what is held: so a product
    stands a step or two from what it is made of, which is what a small model has to find. The goal
    comes first and the goal's recipe next, which a model that starts from nothing does not find
    among the others within minutes; these follow in the order shown. What can be made now follows
    from the recipes and what is held. An item that one recipe shown makes is crafted by name
    (`craft plate`); where there are several, the ingredients are named too. Counts above `most`
    read `many`.
    """

    spells_out = False
    words = ("goal", "craft", "using", "get", "have", "nothing", "can", "cannot", ";")
    many = "many"

    def __init__(self, most: int) -> None:
        self.most = most

    def opening(self, workshop: Workshop) -> str:
        lines = [
            f"{self._some(recipe.makes, recipe.count)} using {self._all(recipe.needs)}"
            for recipe in workshop.recipes
        ]
        return _told(workshop.goal, lines, self._have(workshop))

    def telling(self, outcome: Outcome, workshop: Workshop) -> str:
        have = self._have(workshop)
        return f"cannot ; {have}" if outcome.kind == "refused" else have

    def get(self, item: str, count: int) -> str:
        return f"get {item}" if count == 1 else f"get {count} {item}"

    def craft(self, recipe: Recipe, spent: dict[str, int], workshop: Workshop) -> str:
        if len(workshop.by_item[recipe.makes]) == 1:
            return f"craft {recipe.makes}"
        # Spelled out: in a command, what has no count before it belongs to the name before.
        return f"craft {recipe.makes} using {_pairs(recipe.needs)}"

    def item(self, name: str) -> str:
        return name

    def looks(self) -> tuple[str, ...]:
        return ()

    def relabel(self, opening: str, goal: str) -> str:
        before, *told = opening.split(" ; ")
        if not (len(told) > 1 and before.startswith("goal ")):
            raise TaskError(_NO_OPENING.format(opening[:80]))
        return _told(goal.removeprefix("craft "), told[:-1], told[-1])

    def _have(self, workshop: Workshop) -> str:
        if not workshop.held:
            return _EMPTY
        have = f"have {self._all(sorted(workshop.held.items()))}"
        can = dict.fromkeys(recipe.makes for recipe, _ in workshop.possible())
        return f"{have} ; can {' '.join(can)}" if can else have

    def _all(self, counted: Iterable[tuple[str, int]]) -> str:
        # Said in every observation: the bare name, which is the rule, without a call.
        return " ".join([i if n == 1 else self._some(i, n) for i, n in counted])

    def _some(self, item: str, count: int) -> str:
        if count == 1:
            return item
        return f"{count if count <= self.most else self.many} {item}"


def _told(goal: str, lines: Iterable[str], have: str) -> str:
    """The terse opening: the recipes `lines`, those that make `goal` first."""
    first = sorted(lines, key=lambda line: line.partition(" using ")[0].split()[-1] != goal)
    return " ; ".join((f"goal craft {goal}", *first, have))


def _words(item: str) -> str:
    return item.replace("_", " ")


def _pairs(needs: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{count} {name}" for name, count in needs)


def _list(needs: dict[str, int]) -> str:
    return ", ".join(f"{count} {_words(name)}" for name, count in needs.items())
