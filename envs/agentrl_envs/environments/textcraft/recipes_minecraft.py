"""The recipes of Minecraft 1.16.2, from the `minecraft-data` package (MIT).

The package lists 1,198 crafting recipes with every generic ingredient written out: a chest eight
times, once for each kind of planks. `minecraft_book` puts the generic ingredients back and makes
the recipes a directed graph without cycles:

* Recipes that differ in one ingredient only, and there run through all members of a tag, become one
  recipe of the tag. `planks`, `wooden_slabs` and `wool` are real tags, since their members can be
  made: any member will do. The kinds of logs cannot be told apart by a recipe and become plain raw
  items (`get 1 oak logs`), and so do stone crafting materials and soul fire base blocks.
* A recipe of one ingredient that is a `*_block` is dropped: it only unpacks what another one packs.
* Recipes are admitted in the order (ingredients used, item, ingredients); one whose ingredients
  already depend on its product is dropped. So nuggets are made of ingots, not ingots of nuggets.

What comes out does not depend on a directory's order, a hash seed or a thread. Smelting, smithing
and stone cutting are not in the package; what they would make is raw. The goals by depth:

    depth     1     2     3     4    all
    goals   147   275   114    11    547
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import minecraft_data

from agentrl_envs.environments.textcraft.recipes import Book, Recipe

VERSION = "1.16.2"

_WOODS = ("acacia", "birch", "crimson", "dark_oak", "jungle", "oak", "spruce", "warped")
_FUNGI = ("crimson", "warped")
_COLORS = (
    *("black", "blue", "brown", "cyan", "gray", "green", "light_blue", "light_gray"),
    *("lime", "magenta", "orange", "pink", "purple", "red", "white", "yellow"),
)


def _trunks(wood: str) -> tuple[str, ...]:
    log, bark = ("stem", "hyphae") if wood in _FUNGI else ("log", "wood")
    kinds = (f"{wood}_{log}", f"{wood}_{bark}")
    return tuple(sorted((*kinds, *(f"stripped_{kind}" for kind in kinds))))


_TAGS: dict[str, tuple[str, ...]] = {
    "planks": tuple(f"{wood}_planks" for wood in _WOODS),
    "wooden_slabs": tuple(f"{wood}_slab" for wood in _WOODS),
    "wool": tuple(f"{color}_wool" for color in _COLORS),
}

_RAW_TAGS: dict[str, tuple[str, ...]] = {
    "logs": tuple(sorted(trunk for wood in _WOODS for trunk in _trunks(wood))),
    **{f"{wood}_{'stems' if wood in _FUNGI else 'logs'}": _trunks(wood) for wood in _WOODS},
    "stone_crafting_materials": ("blackstone", "cobblestone"),
    "soul_fire_base_blocks": ("soul_sand", "soul_soil"),
}


@cache
def minecraft_book() -> Book:
    """The book, read once a process."""
    recipes = _read()
    for tag, members in (*_RAW_TAGS.items(), *_TAGS.items()):
        recipes = _merge(recipes, tag, frozenset(members))
    return Book(_acyclic(recipe for recipe in recipes if not _unpacks(recipe)), _TAGS)


def _read() -> set[Recipe]:
    data = minecraft_data(VERSION)
    names = {int(number): str(item["name"]) for number, item in data.items.items()}
    recipes = set()
    for variants in data.recipes.values():
        for variant in variants:
            cells = variant.get("ingredients") or [
                cell for row in variant["inShape"] for cell in row if cell is not None
            ]
            needs = Counter(names[cell] for cell in cells)
            result = variant["result"]
            recipes.add(Recipe(names[result["id"]], result["count"], tuple(sorted(needs.items()))))
    return recipes


def _merge(recipes: set[Recipe], tag: str, members: frozenset[str]) -> set[Recipe]:
    """`recipes`, those that run through all `members` in one place being one recipe of `tag`."""
    alike: dict[Recipe, dict[str, Recipe]] = {}
    for recipe in recipes:
        for name, count in recipe.needs:
            if name in members:
                others = tuple(need for need in recipe.needs if need[0] != name)
                generic = Recipe(recipe.makes, recipe.count, tuple(sorted((*others, (tag, count)))))
                alike.setdefault(generic, {})[name] = recipe
    merged = set(recipes)
    for generic, variants in alike.items():
        if variants.keys() == members:
            merged.difference_update(variants.values())
            merged.add(generic)
    return merged


def _unpacks(recipe: Recipe) -> bool:
    return len(recipe.needs) == 1 and recipe.needs[0][0].endswith("_block")


def _acyclic(recipes: Iterable[Recipe]) -> tuple[Recipe, ...]:
    used: dict[str, set[str]] = {tag: set(members) for tag, members in _TAGS.items()}

    def depends(name: str, on: str) -> bool:
        seen, ahead = {name}, [name]
        while ahead:
            here = ahead.pop()
            if here == on:
                return True
            new = used.get(here, set()) - seen
            seen |= new
            ahead.extend(new)
        return False

    kept = []
    for recipe in sorted(recipes, key=lambda r: (sum(n for _, n in r.needs), r)):
        if not any(depends(need, recipe.makes) for need, _ in recipe.needs):
            used.setdefault(recipe.makes, set()).update(need for need, _ in recipe.needs)
            kept.append(recipe)
    return tuple(sorted(kept))
