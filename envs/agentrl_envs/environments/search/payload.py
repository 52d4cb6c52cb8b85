"""The payload of a task: a question with its accepted answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_envs.env import Split, Task, content_id, in_split, split_of
from agentrl_envs.environments.search.facts import Chain, FactWorld
from agentrl_envs.errors import TaskError

NAME = "search"

SPLITS: tuple[Split, ...] = ("train", "heldout")


class Question(BaseModel):
    """One question, with all that a server of the same corpus needs to set it up."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Annotated[str, Field(min_length=1, max_length=20_000)]
    answers: Annotated[
        tuple[Annotated[str, Field(max_length=20_000)], ...],
        Field(min_length=1, max_length=5_000),
    ]
    """Accepted answers."""
    category: Annotated[str, Field(min_length=1, max_length=80)]
    """The data set, or the number of hops of a generated question."""
    chain: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    """The person and the relations to follow, in order, of a generated question."""
    world: Annotated[str, Field(max_length=80)] = ""
    """The key of the facts of a generated question."""

    @property
    def split(self) -> Split:
        """The split that the content hash belongs to."""
        return split_of(self._content_id())

    def id(self, split: Split) -> str:
        """The content hash in `split`: published data sets have splits of their own."""
        return in_split(self._content_id(), split)

    def _content_id(self) -> str:
        return content_id(NAME, self.model_dump(mode="json"))

    def task(self, split: Split) -> Task:
        """This question as a task of `split`."""
        payload = self.model_dump(mode="json")
        return Task(id=self.id(split), category=self.category, payload=payload)


def chain_question(world: FactWorld, chain: Chain) -> Question:
    """The question of a chain of facts."""
    hops = len(chain.relations)
    return Question(
        question=chain.text,
        answers=(chain.answer,),
        category=f"{hops} hop" + "s" * (hops > 1),
        chain=(chain.start, *chain.relations),
        world=world.key,
    )


def question_of(payload: Mapping[str, Any]) -> Question:
    """Parse the question in a payload. Raises `TaskError` if there is none."""
    try:
        return Question.model_validate(dict(payload))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "payload"
        raise TaskError(
            f"search: {field}: {first['msg']}; pass a payload that a search task set dealt"
        ) from error


def task_question(task: Task, worlds: Collection[str]) -> Question:
    """The question of a task. Raises `TaskError` if the payload holds none, if it is not that of
    the task id, or if it asks about other facts than those of the keys `worlds`."""
    question = question_of(task.payload)
    if task.id not in {question.id(split) for split in SPLITS}:
        raise TaskError(
            f"search: task {task.id}: the payload belongs to another task; pass a task that a "
            "search task set dealt"
        )
    if question.world not in worlds:
        known = ", ".join(list(worlds)[:3]) or "a corpus of its own"
        raise TaskError(
            f"search: task {task.id} asks about {question.world or 'another corpus'}, and this "
            f"environment has {known}; use the options world, worlds, people and facts of the "
            "environment that dealt the task"
        )
    return question
