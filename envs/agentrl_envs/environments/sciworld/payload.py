"""Content of a task: what a server needs to set it up, and its id."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_envs.env import Split, Task, content_id, split_of
from agentrl_envs.environments.sciworld.catalogue import BY_NAME, item_of
from agentrl_envs.errors import TaskError

NAME = "sciworld"


class SciWorldPayload(BaseModel):
    """A ScienceWorld task and variation. Extra and mistyped values are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    task: str
    variation: Annotated[int, Field(ge=0)]
    item: int
    """AgentGym's item id."""
    salt: Annotated[int, Field(ge=0, le=1000)]
    """The smallest number that puts the hash of the task into its split. The package's own splits
    are kept, and the split is still a function of the id."""


@cache
def task_of(name: str, variation: int, split: Split) -> Task:
    """The task of a variation that belongs to `split`."""
    salt = 0
    while True:
        payload = {
            "task": name,
            "variation": variation,
            "item": item_of(name, variation),
            "salt": salt,
        }
        task_id = content_id(NAME, payload)
        if split_of(task_id) == split:
            return Task(id=task_id, category=name, payload=payload)
        salt += 1


def payload_of(task: Task) -> SciWorldPayload:
    """The payload of a task that is one of ours. Raises `TaskError` for any other."""
    try:
        payload = SciWorldPayload.model_validate(dict(task.payload))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "payload"
        message = f"payload.{field}: {first['msg']}; use a task of {NAME}"
        raise TaskError(f"task {task.id}: {message}") from None
    game = BY_NAME.get(payload.task)
    if game is None or payload.variation >= game.variations:
        raise TaskError(
            f"task {task.id}: there is no variation {payload.variation} of {payload.task!r}; "
            f"use a task of {NAME}"
        )
    if task != task_of(payload.task, payload.variation, split_of(task.id)):
        raise TaskError(f"task {task.id}: the payload is another task's; use a task of {NAME}")
    return payload
