"""Messages between client and server: JSON over HTTP, version 1.

    GET    /v1/environment                     -> EnvironmentResponse
    GET    /v1/tasks/{split}?start=&count=     -> TasksResponse
    POST   /v1/sessions       OpenRequest      -> OpenResponse     opens a session with a task
    POST   /v1/sessions/{id}/steps StepRequest -> StepResponse
    DELETE /v1/sessions/{id}                   -> 204
    POST   /v1/steps          StepsRequest     -> StepOutcome, one per line, as each is ready
    POST   /v1/relabel        RelabelRequest   -> RelabelResponse
    POST   /v1/renewals       RenewalRequest   -> RenewalResponse  keeps sessions open

`/v1/steps` and `/v1/relabel` exist only where `EnvironmentResponse` announces them. A server may
lack `/v1/renewals`; sessions without a call for `ttl_s` seconds are lost there. Every failure is an
`ErrorResponse`. All calls are idempotent: an open with the same key and a step with the same number
return the answer of the first call.

Every request may have the header `TIMEOUT_HEADER`. A call of the environment ends after that time,
or after the server's own limit if that is less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from agentrl_envs.env import Observation, Step, Task

DEFAULT_CAPACITY = 256
"""Sessions that a server has open at the same time, unless it is started with another number."""

TIMEOUT_HEADER = "agentrl-timeout-s"
"""Header with the seconds after which the client gives up. A server that does not know it goes on
with calls for which nobody waits until its own limit."""

MAX_ACTION_CHARS = 200_000
"""Characters of one reply. Far beyond the token budget of any turn: a safety limit."""

MAX_STEPS = 256
"""Steps in one `StepsRequest`."""

MAX_RELABELS = 64
"""Observations in one `RelabelRequest`."""

MAX_RENEWALS = 1024
"""Sessions in one `RenewalRequest`."""

MAX_BATCH_CHARS = 64_000
"""Characters of actions, or of observations and goals, that a client puts into one batch."""

MAX_OBSERVATION_CHARS = 200_000
"""Characters of one first observation in a `RelabelRequest`."""

MAX_GOAL_CHARS = 2_000

Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]

ErrorType = Literal[
    "invalid",  # 400, 413, 415, 422: malformed request
    "unauthorized",  # 401
    "not_found",  # 404, 405: no such route
    "task",  # 422: TaskError
    "session",  # 404, 500, 504: SessionError, the session is lost
    "conflict",  # 409: SessionError, the client's view of the session is wrong
    "capacity",  # 429: CapacityError
    "draining",  # 503: UnreachableError, the server is about to stop
    "contract",  # 500: ContractError
    "internal",  # 500: SessionError, the server failed
]

STEP_ANNOTATIONS = ("wellformed", "success", "raw_score", "state", "achieved")
"""Fields of `Step` that earlier servers sent inside `info`."""


def _current_step(step: Any) -> Any:
    """A received step in the current form: earlier servers sent some fields inside `info`.

    Lists become tuples because pydantic, in strict mode, no longer treats the value as JSON once it
    has passed through a Python function.
    """
    if not isinstance(step, Mapping):
        return step
    current = {name: value for name, value in step.items() if name != "info"}
    if isinstance(info := step.get("info"), Mapping):
        current = {name: info[name] for name in STEP_ANNOTATIONS if name in info} | current
    if isinstance(achieved := current.get("achieved"), list):
        current["achieved"] = tuple(achieved)
    observation = current.get("observation")
    if isinstance(observation, Mapping) and isinstance(observation.get("admissible"), list):
        current["observation"] = {**observation, "admissible": tuple(observation["admissible"])}
    return current


WireStep = Annotated[Step, BeforeValidator(_current_step)]


class Message(BaseModel):
    """Base of all messages; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentResponse(Message):
    """The environment that a server serves."""

    name: str
    instructions: str
    vocabulary: tuple[str, ...] | None
    train: int | None
    """Number of training tasks; null: unbounded."""
    heldout: int | None
    """Number of held-out tasks; null: unbounded."""
    capacity: int
    """Maximum number of concurrent sessions."""
    ttl_s: float
    """Seconds without a call or a renewal after which a session expires."""
    version: str
    """Version of the package that serves."""
    tasks_hash: str
    """Hash of the first held-out task ids; equal for servers that deal the same tasks."""
    relabels: bool = False
    """The server has `POST /v1/relabel`."""
    most_steps: int = 0
    """Maximum number of steps in one `POST /v1/steps`; 0: the server has no such route."""


class TasksResponse(Message):
    """A range of tasks of one split."""

    tasks: tuple[Task, ...]


class OpenRequest(Message):
    """Open a session and set up a task in it."""

    task: Task
    key: Key
    """Idempotency key, chosen by the client. The same key returns the same session."""
    replaces: Key | None = None
    """A finished session of this client, closed first so that its place is reused."""


class OpenResponse(Message):
    """The session, leased for `ttl_s` seconds from its last call or renewal."""

    id: str
    ttl_s: float
    observation: Observation


class StepRequest(Message):
    """One action. Steps are numbered from 1."""

    n: int = Field(ge=1)
    action: str = Field(max_length=MAX_ACTION_CHARS)


class StepResponse(Message):
    """The result of one action."""

    step: WireStep


class SessionStep(Message):
    """One action in one of several sessions."""

    session: str = Field(max_length=64)
    n: int = Field(ge=1)
    action: str = Field(max_length=MAX_ACTION_CHARS)


class StepsRequest(Message):
    """Actions in different sessions. A failure of one does not affect the others."""

    steps: tuple[SessionStep, ...] = Field(min_length=1, max_length=MAX_STEPS)


class Relabel(Message):
    """A first observation and the goal to put into it."""

    observation: str = Field(max_length=MAX_OBSERVATION_CHARS)
    goal: str = Field(max_length=MAX_GOAL_CHARS)


class RelabelRequest(Message):
    """First observations whose goals are to be replaced."""

    openings: tuple[Relabel, ...] = Field(min_length=1, max_length=MAX_RELABELS)


class RelabelResponse(Message):
    """The first observations with their new goals, in the order of the request."""

    texts: tuple[str, ...]


class RenewalRequest(Message):
    """Sessions that their client still uses. Those that are not open are ignored."""

    sessions: tuple[Annotated[str, StringConstraints(max_length=64)], ...] = Field(
        min_length=1, max_length=MAX_RENEWALS
    )


class RenewalResponse(Message):
    """The sessions are leased anew."""

    open: int
    """Number of those that are open."""


class ErrorDetail(Message):
    """One error."""

    type: ErrorType
    message: str
    field: str | None = None
    """The field of the request, for `invalid`."""


class ErrorResponse(Message):
    """The body of every response with a status of 400 or more."""

    error: ErrorDetail


class StepOutcome(Message):
    """The result of one step of a `StepsRequest`: a step or an error."""

    index: int
    """Position in the request, from 0."""
    step: WireStep | None = None
    error: ErrorDetail | None = None
