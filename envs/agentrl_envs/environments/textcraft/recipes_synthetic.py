"""Synthetic recipe trees: every task has its own, over a small set of items.

The item names are the same in every task but the recipes differ, so a model has to read the
recipes. An item is either raw in all tasks or craftable in all tasks. A goal of depth d needs an
item of depth d - 1; its other ingredients are raw or, one time in four, made at a lower depth. No
ingredient needs more than one execution yields, so each recipe is needed about once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from agentrl_envs.environments.textcraft.options import TextCraftOptions
from agentrl_envs.environments.textcraft.recipes import Book, Recipe

RAW = (
    *("wood", "stone", "iron", "gold", "coal", "clay", "sand", "wool", "flint", "bone", "reed"),
    *("salt", "copper", "quartz", "resin", "hide", "silk", "moss", "shell", "tin", "wax", "lead"),
    *("amber", "jade"),
)
MADE = (
    *("plank", "brick", "rod", "plate", "gear", "rope", "cloth", "blade", "wheel", "frame", "lamp"),
    *("bolt", "chain", "tile", "hinge", "axle", "lens", "valve", "spring", "panel", "crate"),
    *("cable", "pump", "clock", "anvil", "ladder", "bucket", "hammer", "drill", "motor", "mirror"),
    "engine",
)

_MADE_SHARE = 0.25
"""Probability that an ingredient that may be raw is a crafted one."""


def draw(options: TextCraftOptions, depth: int, rng: Random) -> tuple[Book, str]:
    """A book of one recipe tree with its distractors, and the goal, an item of `depth`."""
    names = list(MADE[: options.made_items])
    rng.shuffle(names)
    drawing = _Drawing(options, rng, names)
    goal = drawing.grow(depth)
    below = [recipe.makes for recipe in drawing.recipes if recipe.makes != goal]
    for _ in range(options.distractors):
        below.append(drawing.distract(below))
    return Book(tuple(sorted(drawing.recipes)), {}), goal


@dataclass(slots=True)
class _Drawing:
    """A tree that grows. `spare` are the names of made items not used yet."""

    options: TextCraftOptions
    rng: Random
    spare: list[str]
    recipes: list[Recipe] = field(default_factory=list)

    def grow(self, depth: int) -> str:
        """Add an item of `depth` with its whole tree; return its name."""
        name = self.spare.pop()
        needs: dict[str, int] = {}
        if depth > 1:
            self._need(needs, self.grow(depth - 1))
        size = self.rng.randint(1, self.options.ingredients)
        while len(needs) < size:
            # A branch must leave names for the distractors. The chain already has its names.
            room = len(self.spare) - self.options.distractors
            if depth > 1 and room > 0 and self.rng.random() < _MADE_SHARE:
                self._need(needs, self.grow(self.rng.randint(1, min(depth - 1, room))))
            else:
                self._need(needs, self._raw())
        self._add(name, needs)
        return name

    def distract(self, below: list[str]) -> str:
        """Add a recipe that the goal does not need, made of raw items and of `below`."""
        name = self.spare.pop()
        needs: dict[str, int] = {}
        size = self.rng.randint(1, self.options.ingredients)
        while len(needs) < size:
            made = bool(below) and self.rng.random() < 2 * _MADE_SHARE
            self._need(needs, self.rng.choice(below) if made else self._raw())
        self._add(name, needs)
        return name

    def _raw(self) -> str:
        return self.rng.choice(RAW[: self.options.raw_items])

    def _need(self, needs: dict[str, int], name: str) -> None:
        made = (recipe.count for recipe in self.recipes if recipe.makes == name)
        needs[name] = self.rng.randint(1, next(made, self.options.most))

    def _add(self, name: str, needs: dict[str, int]) -> None:
        count = self.rng.randint(1, self.options.most)
        self.recipes.append(Recipe(name, count, tuple(sorted(needs.items()))))
