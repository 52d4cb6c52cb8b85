"""The tasks of ScienceWorld 1.2.3 that AgentGym plays: 23 of 30, with their variations and splits.

The numbers are those of the package's jar, so that tasks are dealt without starting Java;
`tests/envs/environments/sciworld/test_catalogue.py` compares them with the jar.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from agentrl_envs.env import Split


class Game(NamedTuple):
    """One ScienceWorld task. Its variations are 0 to train - 1 for training, then `dev`, then
    `test` of them."""

    name: str
    train: int
    dev: int
    test: int

    @property
    def variations(self) -> int:
        return self.train + self.dev + self.test

    def split_of(self, variation: int) -> Split | None:
        """The split of a variation; None for the package's development set."""
        if variation < self.train:
            return "train"
        return "heldout" if variation >= self.train + self.dev else None


GAMES = (
    Game("boil", 14, 7, 9),
    Game("melt", 14, 7, 9),
    Game("freeze", 14, 7, 9),
    Game("change-the-state-of-matter-of", 14, 7, 9),
    Game("use-thermometer", 270, 135, 135),
    Game("measure-melting-point-known-substance", 218, 109, 109),
    Game("measure-melting-point-unknown-substance", 150, 75, 75),
    Game("power-component", 10, 5, 5),
    Game("power-component-renewable-vs-nonrenewable-energy", 10, 5, 5),
    Game("test-conductivity", 450, 225, 225),
    Game("test-conductivity-of-unknown-substances", 300, 150, 150),
    Game("find-living-thing", 150, 75, 75),
    Game("find-non-living-thing", 150, 75, 75),
    Game("find-plant", 150, 75, 75),
    Game("find-animal", 150, 75, 75),
    Game("chemistry-mix", 16, 8, 8),
    Game("chemistry-mix-paint-secondary-color", 18, 9, 9),
    Game("chemistry-mix-paint-tertiary-color", 18, 9, 9),
    Game("lifespan-longest-lived", 62, 31, 32),
    Game("lifespan-shortest-lived", 62, 31, 32),
    Game("lifespan-longest-lived-then-shortest-lived", 62, 31, 32),
    Game("identify-life-stages-1", 6, 3, 5),
    Game("identify-life-stages-2", 4, 2, 4),
)
"""In AgentGym's order, which leaves out growing plants, inclined planes and genetics."""

BY_NAME = {game.name: game for game in GAMES}

STARTER = (
    "find-living-thing",
    "find-non-living-thing",
    "find-plant",
    "find-animal",
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
)
"""Tasks of a few actions."""

GROUPS = {"starter": STARTER, "agentgym": tuple(BY_NAME)}

_STARTS = dict(zip(BY_NAME, accumulate((g.variations for g in GAMES), initial=0), strict=False))

ITEMS = sum(game.variations for game in GAMES)
"""Number of AgentGym's item ids."""


def item_of(name: str, variation: int) -> int:
    """AgentGym's item id (`data_idx`) of a task and variation."""
    return _STARTS[name] + variation


def of_item(item: int) -> tuple[str, int]:
    """The task and variation of AgentGym's item id, from 0 to `ITEMS` - 1."""
    name = next(name for name in reversed(BY_NAME) if _STARTS[name] <= item)
    return name, item - _STARTS[name]


def variations(game: Game, split: Split) -> Iterator[int]:
    """The variations of a split, in the package's order."""
    return (number for number in range(game.variations) if game.split_of(number) == split)
