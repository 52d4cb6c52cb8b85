"""The stored records of a run that other processes read, such as the operator and the command line.

Depends on pydantic only. Fields of a record that are not declared here are ignored."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentrl_components.errors import AbsentError, StoreError
from agentrl_components.schedule.record import Decision
from agentrl_components.storage import keys
from agentrl_components.storage.store import Store

Record = TypeVar("Record", bound=BaseModel)

SMALL_RECORD = 1 << 20
"""Bytes that `state.json`, `tracker.json` and a decision have at most; they take a few thousand.
The operator reads them for all runs, and whoever may write to a run's store may replace them."""

Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A number that the API server takes as int64."""
Seconds = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]


class StoredModel(BaseModel):
    """Base class of stored records. Immutable; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class HeldoutSummary(StoredModel):
    """The success rate of an evaluation, with its 95 % confidence interval."""

    name: str
    success: float
    low: float
    high: float
    n: int
    """Number of tasks."""
    missing: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    """Environments that were down and are not part of it."""


class RunState(StoredModel):
    """Progress of the run, `state.json`. Numbers are bounded, since the operator puts them into the
    status of the run."""

    status: str = "unknown"
    """running, stopped, failed or succeeded."""
    message: str = ""
    reason: str = ""
    """Class of the error, if the run failed."""
    final: bool = False
    """Whether a retry after this failure is useless."""
    failed_phase: int | None = None
    """Index of the phase whose stage failed. None: no stage of a cluster reported it."""
    failed_attempt: int | None = None
    """The attempt at that phase."""
    phase: Count = 0
    """Index of the phase of the next iteration."""
    max_turns: Count = 0
    """Turn limit of that phase."""
    iteration: Count = 0
    """Number of finished iterations."""
    heldout: HeldoutSummary | None = None
    """The latest evaluation of the policy."""
    best: Count | None = None
    """Number of iterations before the best checkpoint."""
    tokens: Count = 0
    """Tokens sampled in training. Repeated iterations count each time."""
    environment_seconds: Seconds = 0.0
    """Sum of the durations of all episodes."""
    device_seconds: Seconds = 0.0
    """Seconds of activity times the number of accelerators."""
    wall_seconds: dict[str, float] = {}
    """Seconds of activity by stage, over all starts of the run."""

    def failed_in(self, phase: int, attempt: int) -> bool:
        """Whether the recorded failure is of this attempt at the phase."""
        return (self.failed_phase, self.failed_attempt) == (phase, attempt)


class TrackerRecord(StoredModel):
    """The MLflow run of the run, `tracker.json`."""

    uid: Annotated[str, Field(max_length=64)] | None = None
    """The tag by which the MLflow run is found while its id is not known."""
    run_id: Annotated[str, Field(max_length=64)] | None = None
    uri: str | None = None


class ModelRecord(StoredModel):
    """Which model the run began with, `model.json`."""

    commit: str | None = Field(default=None, pattern="^[0-9a-f]{40}$")
    """Commit of a repository of the Hugging Face hub."""
    sample: str | None = None
    """Digest of a part of the model folder, of a model that has no commit."""


def read_state(store: Store) -> RunState:
    """The progress of the run in `store`. Raises `StoreError` if the record is damaged."""
    return find_state(store) or RunState()


def find_state(store: Store) -> RunState | None:
    """The progress of the run in `store`, or None if it has not started. Raises `StoreError` if the
    record is damaged."""
    return find_record(store, keys.STATE, RunState, longest=SMALL_RECORD)


def read_decision(store: Store, phase: int) -> Decision | None:
    """The decision after `phase`, or None if the phase is not over. Raises `StoreError` if the
    record is damaged."""
    return find_record(store, keys.phase(phase, keys.DECISION), Decision, longest=SMALL_RECORD)


def read_tracker(store: Store) -> TrackerRecord:
    """The MLflow run of the run in `store`. Raises `StoreError` if the record is damaged."""
    found = find_record(store, keys.TRACKER, TrackerRecord, longest=SMALL_RECORD)
    return found or TrackerRecord()


def find_record(
    store: Store, key: str, kind: type[Record], *, longest: int | None = None
) -> Record | None:
    """The record at `key`, or None if there is none. Raises `StoreError` if it is damaged."""
    try:
        return load_record(store, key, kind, longest=longest)
    except AbsentError:
        return None


def load_record(
    store: Store, key: str, kind: type[Record], *, longest: int | None = None
) -> Record:
    """The record at `key`. Raises `AbsentError` if there is none, and `StoreError`, which names the
    key and the field, if it is damaged or has more than `longest` bytes. None: no limit."""
    data = store.get(key) if longest is None else store.get_start(key, longest + 1)
    if longest is not None and len(data) > longest:
        raise StoreError(f"{key}: in {store.url}: damaged: longer than {longest} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        reason = f"{field}: {first['msg']}" if field else first["msg"]
        raise StoreError(f"{key}: in {store.url}: damaged: {reason}") from error
