"""Where a run is, as whoever drives its phases reads it. Pydantic and nothing heavier.

Only what is shown is checked: what else stands in a record does not matter here."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.schedule.record import Decision
from agentrl_components.storage import keys
from agentrl_components.storage.store import Store

Read = TypeVar("Read", bound=BaseModel)


class Stored(BaseModel):
    """A part of the store."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Found(Stored):
    """What an evaluation found, in short."""

    name: str
    success: float
    low: float
    high: float
    n: int
    """Tasks."""


class State(Stored):
    """Where the run is: the whole of what whoever drives the phases must know."""

    status: str = "unknown"
    """running, stopped, failed or succeeded."""
    message: str = ""
    reason: str = ""
    """Of a failure: the class of the error."""
    final: bool = False
    """Of a failure: it would only happen again."""
    phase: int = 0
    """Of the next iteration."""
    max_turns: int = 0
    """Of that phase."""
    iteration: int = 0
    """Iterations done."""
    heldout: Found | None = None
    """The policy's newest evaluation."""
    best: int | None = None
    """Iterations before the best checkpoint."""
    tokens: int = 0
    """Sampled by training, what was played twice counted twice."""
    environment_seconds: float = 0.0
    """Seconds that episodes were played."""
    device_seconds: float = 0.0
    """Seconds of work times accelerators."""
    wall_seconds: dict[str, float] = {}
    """Seconds of work by stage, over every start of the run."""


class Tracked(Stored):
    """Which MLflow run shows the run."""

    run_id: str | None = None
    uri: str | None = None


def read_state(store: Store) -> State:
    """Where the run in `store` is. Raises `StoreError` where that is damaged."""
    return known(store, keys.STATE, State) or State()


def read_decision(store: Store, phase: int) -> Decision | None:
    """What follows `phase`; None: it is not over. Raises `StoreError` where that is damaged."""
    return known(store, keys.phase(phase, keys.DECISION), Decision)


def read_tracked(store: Store) -> Tracked:
    """Which MLflow run shows it. Raises `StoreError` where that is damaged."""
    return known(store, keys.TRACKER, Tracked) or Tracked()


def known(store: Store, key: str, kind: type[Read]) -> Read | None:
    """What is under `key`, if anything is. Raises `StoreError` where it is damaged."""
    try:
        return checked(store, key, kind)
    except AbsentError:
        return None


def checked(store: Store, key: str, kind: type[Read]) -> Read:
    """What is under `key`. Raises `StoreError`, which names the key, where it is damaged."""
    try:
        return kind.model_validate_json(store.get(key))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        reason = f"{place}: {first['msg']}" if place else first["msg"]
        raise StoreError(f"{key}: in {store.url}: damaged: {reason}") from error
