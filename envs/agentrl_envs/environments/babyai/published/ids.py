"""AgentGym's task ids: the level is `data_idx % 40`, the seed `data_idx // 40`.

The data set uses 18 of the 40 levels. Its test ids are those from 1804 on, five a level; the ids
below are training tasks. (The data set lists 810 training ids; these are 814.)
"""

from __future__ import annotations

from agentrl_envs.env import Split
from agentrl_envs.environments.babyai.options import AGENTGYM

POSITIONS = (*range(11), 18, 19, 20, 29, 30, 32, 35)
"""`data_idx % 40` of each level in `options.AGENTGYM`, in its order."""
LEVELS_UPSTREAM = 40
FIRST_TEST, END_TEST = 1804, 2004

_LEVEL = dict(zip(POSITIONS, AGENTGYM, strict=True))

CATEGORIES = {"GoTo": "GoTo", "Pickup": "Pickup", "ActionObjDoor": "AOD", "FindObj": "Find"}
CATEGORIES |= {"OneRoom": "Room", "SynthLoc": "SLoc"}
"""The paper's category of a level, by the start of its short name."""

_IDS: dict[Split, tuple[int, ...]] = {
    "train": tuple(i for i in range(FIRST_TEST) if i % LEVELS_UPSTREAM in _LEVEL),
    "heldout": tuple(i for i in range(FIRST_TEST, END_TEST) if i % LEVELS_UPSTREAM in _LEVEL),
}


def data_ids(split: Split) -> tuple[int, ...]:
    """AgentGym's ids of a split, ascending."""
    return _IDS[split]


def level_and_seed(data_idx: int) -> tuple[str, int]:
    """The level (minigrid's id) and the seed of an id. Raises `KeyError` for a level that the data
    set does not use."""
    return _LEVEL[data_idx % LEVELS_UPSTREAM], data_idx // LEVELS_UPSTREAM


def category(short_name: str) -> str:
    """The paper's category of a level."""
    return next(name for start, name in CATEGORIES.items() if short_name.startswith(start))
