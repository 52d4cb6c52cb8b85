"""The state of a crafting problem: an inventory, and the effects of taking and crafting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from agentrl_envs.environments.textcraft.payload import Problem
from agentrl_envs.environments.textcraft.recipes import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one command."""

    kind: Literal["got", "crafted", "inventory", "refused"]
    item: str = ""
    count: int = 0
    message: str = ""
    """The reason, if refused."""

    @property
    def done(self) -> bool:
        """Whether the command was executed."""
        return self.kind != "refused"


class Workshop:
    """One problem and the inventory."""

    def __init__(self, problem: Problem) -> None:
        self.goal = problem.goal
        self.askable = frozenset(problem.askable)
        self.tags: Mapping[str, frozenset[str]] = {
            tag: frozenset(members) for tag, members in problem.tags.items()
        }
        self.recipes: tuple[Recipe, ...] = problem.shown()
        """Ingredients in the order in which they are shown."""
        self.by_item: dict[str, list[Recipe]] = {}
        sizes: dict[str, set[int]] = {item: set() for item in sorted(problem.raw)}
        for recipe in self.recipes:
            self.by_item.setdefault(recipe.makes, []).append(recipe)
            for name, count in recipe.needs:
                if name in sizes:
                    sizes[name].add(count)
        self.takings: tuple[tuple[str, int], ...] = tuple(
            (item, count) for item, counts in sizes.items() for count in sorted(counts or {1})
        )
        """(raw item, count) for each count that one of the recipes needs."""
        self.raw = frozenset(problem.raw)
        self.held: dict[str, int] = {}
        """The inventory, in order of acquisition. Contains no zero counts."""

    def take(self, item: str, count: int) -> Outcome:
        """Take raw items; the supply is unlimited."""
        if item not in self.raw:
            return Outcome(kind="refused", item=item, message=self._why_not_taken(item))
        self.held[item] = self.held.get(item, 0) + count
        return Outcome(kind="got", item=item, count=count)

    def craft(self, item: str, count: int | None, given: Mapping[str, int] | None) -> Outcome:
        """Execute one recipe once.

        `given`: the ingredients named (items, or tags for which any held members are used); None:
        the first recipe for which the inventory suffices. `count` may be less than a recipe yields,
        because a recipe makes a batch, but not more.
        """
        recipes = self.by_item.get(item, ())
        fitting = [recipe for recipe in recipes if given is None or self._fits(recipe, given)]
        if not fitting:
            return Outcome(kind="refused", item=item, message=self._why_no_recipe(item))
        for recipe in fitting:
            spent = self.spend(dict(recipe.needs) if given is None else given)
            if spent is None:
                continue
            if count is not None and count > recipe.count:
                return Outcome(kind="refused", item=item, message=_too_many(recipe, count))
            self._pay(spent)
            self.held[item] = self.held.get(item, 0) + recipe.count
            return Outcome(kind="crafted", item=item, count=recipe.count)
        return Outcome(kind="refused", item=item, message=self._why_short(fitting[0], given))

    def spend(self, asked: Mapping[str, int]) -> dict[str, int] | None:
        """The items that `asked` (items and tags) would consume; None: the inventory is short."""
        spent: dict[str, int] = {}
        for name, count in asked.items():
            if name not in self.tags:
                if self.held.get(name, 0) < count:
                    return None
                spent[name] = count
        for tag, members in self.tags.items():
            lacking = asked.get(tag, 0)
            if not lacking:
                continue
            free = {m: n - spent.get(m, 0) for m, n in self.held.items() if m in members}
            # Prefer one member that suffices, so that the command stays short.
            for member in sorted(free, key=lambda m: (free[m] < lacking, m)):
                used = min(lacking, free[member])
                if used:
                    spent[member] = spent.get(member, 0) + used
                    lacking -= used
            if lacking:
                return None
        return spent

    def possible(self) -> list[tuple[Recipe, dict[str, int]]]:
        """The recipes that can be executed now, each with the items it would consume."""
        found = []
        for recipe in self.recipes:
            spent = self.spend(dict(recipe.needs))
            if spent is not None:
                found.append((recipe, spent))
        return found

    def state(self) -> str:
        """Hash of the inventory and the goal."""
        text = repr((self.goal, sorted(self.held.items())))
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def _fits(self, recipe: Recipe, given: Mapping[str, int]) -> bool:
        """Whether `given` is what one execution consumes, with members in place of their tags."""
        left = dict(given)
        for name, count in recipe.needs:
            if name not in self.tags:
                if left.get(name, 0) < count:
                    return False
                left[name] -= count
        for name, count in recipe.needs:
            for member in (name, *sorted(self.tags.get(name, ()))) if name in self.tags else ():
                used = min(count, left.get(member, 0))
                if used:
                    left[member] -= used
                    count -= used
            if name in self.tags and count:
                return False
        return not any(left.values())

    def _pay(self, spent: Mapping[str, int]) -> None:
        for name, count in spent.items():
            self.held[name] -= count
            if not self.held[name]:
                del self.held[name]

    def _why_not_taken(self, item: str) -> str:
        words = item.replace("_", " ")
        if item in self.by_item:
            return f"Could not find {words}: it has to be crafted."
        if item in self.tags:
            return f"Could not find {words}: that is a kind of item; name one of its members."
        return f"Could not find {words}"

    def _why_no_recipe(self, item: str) -> str:
        start = f"Could not find a valid recipe for {item.replace('_', ' ')}"
        if item not in self.by_item:
            return f"{start}: no crafting command shown makes it."
        return f"{start}: give exactly the ingredients and counts of a crafting command shown."

    def _why_short(self, recipe: Recipe, given: Mapping[str, int] | None) -> str:
        asked = dict(recipe.needs) if given is None else given
        missing = [
            f"{count} {name.replace('_', ' ')}"
            for name, count in asked.items()
            if self.spend({name: count}) is None
        ]
        return (
            f"Could not find enough items to craft minecraft:{recipe.makes}:"
            f" you do not hold {', '.join(missing)}."
        )


def _too_many(recipe: Recipe, count: int) -> str:
    words = recipe.makes.replace("_", " ")
    return (
        f"Could not find a valid recipe for {count} {words}:"
        f" the crafting command makes {recipe.count} at a time."
    )
