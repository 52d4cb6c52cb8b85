"""Recipes, and the recipe book of a world.

Items are named as Minecraft names them, in lower case with underscores: `iron_nugget`. A *tag* is a
generic ingredient such as `planks`; any of its members can be used for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from agentrl_envs.env import Split, content_id, split_of


@dataclass(frozen=True, slots=True, order=True)
class Recipe:
    """A recipe of one item."""

    makes: str
    count: int
    """Count that one execution yields."""
    needs: tuple[tuple[str, int], ...]
    """(item or tag, count), consumed by one execution."""


@dataclass(frozen=True)
class Book:
    """Every recipe of a world, sorted. Acyclic: no item is needed to craft itself."""

    recipes: tuple[Recipe, ...]
    tags: Mapping[str, tuple[str, ...]]

    @cached_property
    def by_item(self) -> Mapping[str, tuple[Recipe, ...]]:
        """The recipes of each item, in the book's order."""
        found: dict[str, list[Recipe]] = {}
        for recipe in self.recipes:
            found.setdefault(recipe.makes, []).append(recipe)
        return {item: tuple(recipes) for item, recipes in found.items()}

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Depth of every craftable item: the height of its lowest recipe tree."""
        known: dict[str, int] = {}

        def depth(name: str) -> int:
            if name in self.tags:
                return min(depth(member) for member in self.tags[name])
            if name not in self.by_item:
                return 0
            if name not in known:
                known[name] = min(
                    1 + max(depth(need) for need, _ in recipe.needs)
                    for recipe in self.by_item[name]
                )
            return known[name]

        return {item: depth(item) for item in sorted(self.by_item)}

    def is_raw(self, name: str) -> bool:
        """Whether it can be taken: neither craftable nor generic."""
        return name not in self.by_item and name not in self.tags

    def tree(self, goal: str) -> tuple[Recipe, ...]:
        """Every recipe that can contribute to `goal`, in the book's order."""
        seen: set[str] = set()
        ahead = [goal]
        while ahead:
            name = ahead.pop()
            if name in seen:
                continue
            seen.add(name)
            ahead.extend(self.tags.get(name, ()))
            for recipe in self.by_item.get(name, ()):
                ahead.extend(need for need, _ in recipe.needs)
        return tuple(recipe for recipe in self.recipes if recipe.makes in seen)

    def split(self, item: str) -> Split:
        """The split in which `item` may be a goal: a function of the item and the recipes of its
        tree alone, whatever else is in the book."""
        if item not in self._splits:
            tree = [[recipe.makes, recipe.count, recipe.needs] for recipe in self.tree(item)]
            self._splits[item] = split_of(content_id("textcraft", [item, tree]))
        return self._splits[item]

    @cached_property
    def _splits(self) -> dict[str, Split]:
        return {}
