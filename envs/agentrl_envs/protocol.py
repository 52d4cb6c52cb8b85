"""What travels between the client and the server: JSON over HTTP, version 1.

    GET    /v1/environment                    -> EnvironmentAnswer
    GET    /v1/tasks/{split}?start=&count=    -> TasksAnswer
    POST   /v1/sessions      OpenRequest      -> OpenAnswer       opens, and sets the task up
    POST   /v1/sessions/{id}/steps StepRequest -> Step
    DELETE /v1/sessions/{id}                  -> 204
    POST   /v1/steps         StepsRequest     -> StepOutcome, one a line, each as it is known
    POST   /v1/relabel       RelabelRequest   -> RelabelAnswer

The last two are for servers whose `EnvironmentAnswer` offers them. Every failure is an
`ErrorAnswer`. All calls may be repeated: an open with the same key and a step with the same number
return the answer of the first.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from agentrl_envs.env import Observation, Step, Task

LONGEST_ACTION = 200_000
"""Characters of one reply. Far beyond any turn's token budget; a wall, not a limit to tune."""

MOST_STEPS = 256
"""Steps in one `StepsRequest`."""

MOST_RELABELLED = 64
"""Openings in one `RelabelRequest`."""

MOST_TOGETHER = 64_000
"""Characters of actions, or of openings and goals, that a client sends in one request of many."""

LONGEST_OPENING = 200_000
"""Characters of one first observation."""

LONGEST_GOAL = 2_000

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

ErrorType = Literal[
    "invalid",  # 400, 413, 415, 422: the request is not one
    "unauthorized",  # 401
    "not_found",  # 404, 405: no such route
    "task",  # 422: TaskError
    "session",  # 404, 500, 504: SessionError, the session is lost
    "conflict",  # 409: SessionError, the session is not where the client thinks
    "capacity",  # 429: CapacityError
    "contract",  # 500: ContractError
    "internal",  # 500: SessionError, the server failed
]


class Message(BaseModel):
    """Strict about what it does not know, as a contract should be."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentAnswer(Message):
    """What a server serves."""

    name: str
    instructions: str
    vocabulary: tuple[str, ...] | None
    train: int | None
    """Tasks in the split; null: no end."""
    heldout: int | None
    capacity: int
    """Sessions that the server holds at once."""
    ttl_s: float
    """Seconds without a call after which a session is given away."""
    version: str
    """Version of the package that serves."""
    tasks_hash: str
    """`tasks_hash` of the held-out split: equal for servers that deal equal tasks."""
    relabels: bool = False
    """Whether `POST /v1/relabel` rewrites goals. Servers that do not say so do not."""
    most_steps: int = 0
    """Steps that `POST /v1/steps` takes at once; 0: the server has no such route."""


class TasksAnswer(Message):
    """A stretch of a split."""

    tasks: tuple[Task, ...]


class OpenRequest(Message):
    """Open a session and set a task up in it."""

    task: Task
    key: Key
    """Chosen by the client. The same key again returns the same session."""
    replaces: Key | None = None
    """A session of the client's that is over; it is closed first, so its place is not lost."""


class OpenAnswer(Message):
    """The session, leased for `ttl_s` seconds from its last call."""

    id: str
    ttl_s: float
    observation: Observation


class StepRequest(Message):
    """Take a reply. Steps are numbered from 1."""

    n: int = Field(ge=1)
    action: str = Field(max_length=LONGEST_ACTION)


class StepAnswer(Message):
    """What the reply led to."""

    step: Step


class SessionStep(Message):
    """A step of one session among many."""

    session: str = Field(max_length=64)
    n: int = Field(ge=1)
    action: str = Field(max_length=LONGEST_ACTION)


class StepsRequest(Message):
    """Steps of different sessions. What happens to one does not touch the others."""

    steps: tuple[SessionStep, ...] = Field(min_length=1, max_length=MOST_STEPS)


class Opening(Message):
    """A first observation, and the goal that it shall have."""

    observation: str = Field(max_length=LONGEST_OPENING)
    goal: str = Field(max_length=LONGEST_GOAL)


class RelabelRequest(Message):
    """Openings whose goals shall be rewritten."""

    openings: tuple[Opening, ...] = Field(min_length=1, max_length=MOST_RELABELLED)


class RelabelAnswer(Message):
    """The first observations with their new goals, in the order asked for."""

    texts: tuple[str, ...]


class ErrorDetail(Message):
    """What went wrong."""

    type: ErrorType
    message: str
    field: str | None = None
    """Where in the request, for `invalid`."""


class ErrorAnswer(Message):
    """Every answer with a status of 400 or more."""

    error: ErrorDetail


class StepOutcome(Message):
    """What came of one step of a `StepsRequest`: a step or an error."""

    index: int
    """Which one, counted from 0."""
    step: Step | None = None
    error: ErrorDetail | None = None
