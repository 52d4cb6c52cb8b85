"""Word lists from which names are made: common lower-case words, so that a model with a small
vocabulary can read the pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

COLOURS = ("red", "blue", "green", "yellow", "black", "white", "grey", "brown")
ADJECTIVES = ("old", "small", "quiet", "golden", "broken", "early", "wild", "bright")
ANIMALS = ("lion", "fox", "owl", "bear", "crane", "hare", "otter", "wolf")
FIRST_NAMES = ("anna", "ben", "carla", "david", "emma", "felix", "greta", "hugo", "ida", "jonas")
LAST_NAMES = ("berg", "cole", "dahl", "finch", "hart", "lind", "moor", "stone")

STATUSES = ("pending", "processing", "shipped", "delivered", "cancelled")
"""States of an order in the shop."""


def slug(name: str) -> str:
    """The form of a name in URLs and element ids."""
    return name.replace(" ", "-")


def draws(random: Random, *parts: Sequence[str]) -> Iterator[str]:
    """Different names, each with one word of every part, in random order. Ends after the last
    combination."""
    seen: set[str] = set()
    total = 1
    for part in parts:
        total *= len(part)
    while len(seen) < total:
        name = " ".join(random.choice(part) for part in parts)
        if name not in seen:
            seen.add(name)
            yield name


def people(random: Random, count: int) -> list[str]:
    """Different full names."""
    names = draws(random, FIRST_NAMES, LAST_NAMES)
    return [next(names) for _ in range(count)]
