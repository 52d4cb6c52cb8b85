"""The payload of a task: a crafting problem with its goal, recipes and raw items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_envs.env import Split, Task, content_id, in_split
from agentrl_envs.environments.textcraft.recipes import Book, Recipe
from agentrl_envs.errors import TaskError

NAME = "textcraft"

SPLITS: tuple[Split, ...] = ("train", "heldout")

_Item = Annotated[str, Field(pattern=r"^[a-z][a-z_]{0,63}$")]
_Count = Annotated[int, Field(ge=1, le=999)]
_Need = tuple[_Item, _Count]


class Problem(BaseModel):
    """One crafting problem, with all that a server needs to set it up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    goal: _Item
    """The item to craft."""
    depth: Annotated[int, Field(ge=0, le=99)]
    """Length of the longest chain of crafts."""
    recipes: Annotated[
        tuple[tuple[_Item, _Count, Annotated[tuple[_Need, ...], Field(min_length=1)]], ...],
        Field(min_length=1, max_length=999),
    ]
    """The listed recipes, in order: (item, count, ingredients)."""
    askable: tuple[_Item, ...]
    """The craftable items that may be goals in the split of this problem. The others are goals of
    the other split, and never become goals by relabeling."""
    raw: tuple[_Item, ...]
    """The items that can be taken: every listed ingredient that no recipe of the world makes."""
    tags: dict[_Item, Annotated[tuple[_Item, ...], Field(min_length=1)]]
    """Members of each listed generic ingredient."""

    def id(self, split: Split) -> str:
        """The content hash of everything here, in `split`. As the split follows from the content
        (`Book.split`), so does the id."""
        return in_split(content_id(NAME, self.model_dump(mode="json")), split)

    def task(self, split: Split) -> Task:
        """This problem as a task of `split`. Its category is the depth."""
        return Task(
            id=self.id(split), category=f"depth {self.depth}", payload=self.model_dump(mode="json")
        )

    def shown(self) -> tuple[Recipe, ...]:
        """The recipes, in the listed order."""
        return tuple(Recipe(makes, count, needs) for makes, count, needs in self.recipes)


def pose(book: Book, goal: str, shown: Sequence[Recipe]) -> Problem:
    """The problem of crafting `goal` in the world of `book`, with the recipes `shown`."""
    names = sorted({name for recipe in shown for name, _ in recipe.needs})
    split = book.split(goal)
    return Problem(
        goal=goal,
        depth=book.depths[goal],
        recipes=tuple((recipe.makes, recipe.count, recipe.needs) for recipe in shown),
        askable=tuple(sorted({r.makes for r in shown if book.split(r.makes) == split})),
        raw=tuple(name for name in names if book.is_raw(name)),
        tags={name: book.tags[name] for name in names if name in book.tags},
    )


def task_problem(task: Task) -> Problem:
    """The problem of a task. Raises `TaskError` if the payload holds none, or if its content hash
    differs from the task id."""
    problem = problem_of(task.payload)
    found = {problem.id(split) for split in SPLITS}
    if task.id not in found:
        raise TaskError(
            f"textcraft: task {task.id}: the payload belongs to another task; pass a task that a "
            "TextCraft task set dealt"
        )
    return problem


def problem_of(payload: Mapping[str, Any]) -> Problem:
    """Parse the problem in a task's payload. Raises `TaskError` if it is invalid."""
    try:
        return Problem.model_validate(dict(payload))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "payload"
        raise TaskError(
            f"textcraft: {field}: {first['msg']}; pass a payload that a TextCraft task set dealt"
        ) from error
