"""The tasks of AgentGym's data set."""

from __future__ import annotations

from functools import cache

from agentrl_envs.env import Split, Task, in_split
from agentrl_envs.environments.babyai.level import build, grid_code, task_id
from agentrl_envs.environments.babyai.options import short_name
from agentrl_envs.environments.babyai.published.ids import (
    FIRST_TEST,
    LEVELS_UPSTREAM,
    category,
    data_ids,
    level_and_seed,
)
from agentrl_envs.errors import TaskError


class PublishedTasks:
    """Tasks by position among AgentGym's ids of a split; `Task.payload` names the id.

    The split is the data set's. A world that a training id and a test id share is a test task:
    such training ids are left out.
    """

    def size(self, split: Split) -> int:
        return len(_ids(split))

    def task(self, split: Split, index: int) -> Task:
        ids = _ids(split)
        return _task(ids[index % len(ids)], split)

    def numbered(self, data_idx: int) -> Task:
        """The task of an id. Raises `TaskError` for a level that the data set does not use."""
        try:
            level_and_seed(data_idx)
        except KeyError:
            raise TaskError(
                f"data_idx: {data_idx} is level {data_idx % LEVELS_UPSTREAM} of {LEVELS_UPSTREAM}, "
                "which the data set does not use"
            ) from None
        return _task(data_idx, "heldout" if data_idx >= FIRST_TEST else "train")


@cache
def _ids(split: Split) -> tuple[int, ...]:
    """The ids of a split; of equal worlds of the test split and those of the training split that
    are in the test split only the first is kept."""
    if split == "heldout":
        first: dict[str, int] = {}
        for data_idx in data_ids("heldout"):
            first.setdefault(_world(data_idx), data_idx)
        return tuple(first.values())
    tested = {_world(data_idx) for data_idx in _ids("heldout")}
    return tuple(each for each in data_ids("train") if _world(each) not in tested)


@cache
def _world(data_idx: int) -> str:
    """The content hash of the world of an id."""
    level, seed = level_and_seed(data_idx)
    game = _built(level)
    game.reset(seed=seed)
    return task_id(level, game, grid_code(game))


_built = cache(build)


def _task(data_idx: int, split: Split) -> Task:
    level, seed = level_and_seed(data_idx)
    return Task(
        id=in_split(_world(data_idx), split),
        category=category(short_name(level)),
        payload={"level": level, "seed": seed, "data_idx": data_idx},
    )
