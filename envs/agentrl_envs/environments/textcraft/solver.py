"""Shortest solutions: to prove that a problem can be solved, and to measure agents.

Shortest among plans of admissible actions, which take no more of a raw item at a time than a listed
recipe needs, that craft each item by one recipe and use one member for each generic ingredient.
With one recipe per item (synthetic trees) there are no other plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agentrl_envs.environments.textcraft.crafting import Workshop
from agentrl_envs.environments.textcraft.recipes import Recipe

_Demand = tuple[tuple[str, int], ...]
_Move = tuple[Recipe, int] | tuple[str, str] | None
_IMPOSSIBLE = 10**9


@dataclass(frozen=True)
class Planner:
    """Plans for one workshop after reset, with an empty inventory."""

    workshop: Workshop

    @cached_property
    def heights(self) -> dict[str, int]:
        """Height of every name: one more than that of anything it can be made of."""
        known: dict[str, int] = {}

        def height(name: str) -> int:
            if name not in known:
                below = [height(member) for member in sorted(self.workshop.tags.get(name, ()))]
                for recipe in self.workshop.by_item.get(name, ()):
                    below += [height(need) for need, _ in recipe.needs]
                known[name] = 1 + max(below, default=-1)
            return known[name]

        height(self.workshop.goal)
        return known

    @cached_property
    def portions(self) -> dict[str, int]:
        """Largest count of each raw item that one admissible action takes."""
        return dict(self.workshop.takings)

    def moves(self) -> tuple[dict[str, int], list[tuple[Recipe, int]]] | None:
        """(raw items to take, recipes to execute in order and how often); None: no solution."""
        solved: dict[_Demand, tuple[int, _Move]] = {}
        demand: _Demand = ((self.workshop.goal, 1),)
        if self._turns(demand, solved) >= _IMPOSSIBLE:
            return None
        crafts = []
        while (move := solved[demand][1]) is not None:
            demand = self._after(demand, move)
            if isinstance(move[0], Recipe):
                crafts.append((move[0], int(move[1])))
        return dict(demand), crafts[::-1]

    def _turns(self, demand: _Demand, solved: dict[_Demand, tuple[int, _Move]]) -> int:
        """Minimum number of turns to obtain the demand."""
        if demand in solved:
            return solved[demand][0]
        # The highest name first, because by then the whole demand for it is known.
        top = max((name for name, _ in demand), key=lambda name: (self.heights[name], name))
        best: tuple[int, _Move] = (_IMPOSSIBLE, None)
        if top in self.workshop.raw:
            takes = [-(-count // self.portions.get(name, 1)) for name, count in demand]
            raw = all(name in self.workshop.raw for name, _ in demand)
            best = (sum(takes) if raw else _IMPOSSIBLE, None)
        for move in self._choices(top, dict(demand)[top]):
            cost = int(move[1]) if isinstance(move[0], Recipe) else 0
            turns = cost + self._turns(self._after(demand, move), solved)
            if turns < best[0]:
                best = (turns, move)
        solved[demand] = best
        return best[0]

    def _choices(self, name: str, count: int) -> list[tuple[Recipe, int] | tuple[str, str]]:
        if name in self.workshop.tags:
            return [(name, member) for member in sorted(self.workshop.tags[name])]
        recipes = self.workshop.by_item.get(name, ())
        return [(recipe, -(-count // recipe.count)) for recipe in recipes]

    def _after(self, demand: _Demand, move: tuple[Recipe, int] | tuple[str, str]) -> _Demand:
        left = dict(demand)
        match move:
            case (Recipe() as recipe, int(times)):
                del left[recipe.makes]
                for name, count in recipe.needs:
                    left[name] = left.get(name, 0) + count * times
            case (str(tag), str(member)):
                left[member] = left.get(member, 0) + left.pop(tag)
        return tuple(sorted(left.items()))
