"""The status of a run: everything that the operator remembers about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from agentrl_components.spec.crd.status import STATUS
from agentrl_operator.api.conditions import Condition, Kind, Reason, Time, Truth, with_condition


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )


class Cost(_Part):
    """Resources that a run has used."""

    tokens: int = 0
    environment_seconds: int = 0
    device_seconds: int = 0


class Ray(_Part):
    """The run's Ray cluster."""

    cluster: str
    workers: str
    dashboard_url: str
    metrics_url: str


class Status(_Part):
    """The fields are described in `agentrl_components.spec.crd.status`."""

    state: Literal["Pending", "Running", "Suspended", "Succeeded", "Failed"] = "Pending"
    observed_generation: int = 0
    phase_index: int = 0
    attempt: int = 0
    failures: int = 0
    retry_time: Time | None = None
    horizon: int | None = None
    iteration: int | None = None
    iterations: int | None = None
    success: str | None = None
    best_checkpoint: str | None = None
    kfp_run: str | None = None
    kfp_url: str | None = None
    mlflow_run: str | None = None
    mlflow_url: str | None = None
    mlflow_finished: bool | None = None
    message: str | None = None
    start_time: Time | None = None
    active_time: Time | None = None
    active_seconds: int = 0
    completion_time: Time | None = None
    cost: Cost | None = None
    ray: Ray | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether the run has succeeded or failed."""
        return self.completion_time is not None

    def condition(self, kind: Kind) -> Condition | None:
        """The condition of this type; None if there is none."""
        return next((one for one in self.conditions if one.type == kind), None)

    def has_condition(self, kind: Kind, status: Truth, *reasons: Reason) -> bool:
        """Whether a condition has this status and one of `reasons`, if any are given."""
        found = self.condition(kind)
        return (
            found is not None
            and found.status == status
            and (not reasons or found.reason in reasons)
        )

    def with_(self, **fields: Any) -> Status:
        """A copy with these fields changed."""
        return self.model_copy(update=fields)

    def with_condition(
        self, kind: Kind, status: Truth, reason: Reason, message: str, now: datetime
    ) -> Status:
        """A copy with this condition, for the observed generation."""
        condition = Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=now,
            observed_generation=self.observed_generation,
        )
        return self.with_(conditions=with_condition(self.conditions, condition))

    def with_progressing(self, truth: Truth, reason: Reason, message: str, now: datetime) -> Status:
        """A copy with this Progressing condition and the same text in `message`, which is a printer
        column."""
        status = self.with_condition(Kind.PROGRESSING, truth, reason, message, now)
        return status.with_(message=message)

    def active_for(self, now: datetime) -> float:
        """Seconds for which the run has been working, without the time that it was suspended."""
        running = (now - self.active_time).total_seconds() if self.active_time is not None else 0.0
        return self.active_seconds + max(0.0, running)


def read(stored: Mapping[str, Any] | None) -> Status:
    """The status in an object of the Kubernetes API; an empty one if that is invalid, so that it is
    rebuilt."""
    try:
        return Status.model_validate(stored or {})
    except ValidationError:
        return Status()


def as_json(status: Status) -> dict[str, Any]:
    """The status as stored in the resource. Longer texts than its schema allows are truncated: the
    API server would refuse each patch that has one, and with it all that the status remembers."""
    stored = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    truncated: dict[str, Any] = _truncated(stored, STATUS)
    return truncated


def patch(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch from one status to the other; empty if they are equal."""
    before = before or {}
    changes = {name: value for name, value in after.items() if before.get(name) != value}
    return changes | {name: None for name in before if name not in after}


def _truncated(value: Any, schema: Mapping[str, Any]) -> Any:
    """`value` with each text truncated to the `maxLength` of its schema."""
    if isinstance(value, str):
        longest = schema.get("maxLength", len(value))
        return value if len(value) <= longest else f"{value[: longest - 1]}…"
    if isinstance(value, list):
        return [_truncated(one, schema["items"]) for one in value]
    if isinstance(value, dict):
        fields = schema["properties"]
        return {name: _truncated(one, fields[name]) for name, one in value.items()}
    return value
