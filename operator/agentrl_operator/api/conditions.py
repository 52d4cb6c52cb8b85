"""Conditions of a run, in the form of Kubernetes' metav1.Condition."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

Truth = Literal["True", "False", "Unknown"]


def rfc3339(time: datetime) -> str:
    """A time in the format of Kubernetes: RFC 3339, UTC, whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[datetime, PlainSerializer(rfc3339)]


class Kind(StrEnum):
    """Types of conditions."""

    ACCEPTED = "Accepted"
    ADMITTED = "Admitted"
    ENVIRONMENTS_READY = "EnvironmentsReady"
    RAY_CLUSTER_READY = "RayClusterReady"
    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Reason(StrEnum):
    """Reasons of conditions and Events; no others are used."""

    VALID = "Valid"
    INVALID_SPEC = "InvalidSpec"

    ADMITTED = "Admitted"
    QUEUED = "Queued"
    EVICTED = "Evicted"
    NOT_QUEUED = "NotQueued"
    NO_PRIORITY_CLASS = "NoPriorityClass"

    READY = "Ready"
    STARTING = "Starting"
    SCALED_DOWN = "ScaledDown"
    NONE_SERVED = "NoneServed"
    RAY_STARTING = "RayStarting"
    ENVIRONMENTS_STARTING = "EnvironmentsStarting"
    KUBERAY_UNAVAILABLE = "KubeRayUnavailable"
    AGENT_SANDBOX_UNAVAILABLE = "AgentSandboxUnavailable"

    SUBMITTING = "Submitting"
    RUNNING = "Running"
    UNSCHEDULABLE = "Unschedulable"
    POD_NOT_CREATED = "PodNotCreated"
    POD_CANNOT_START = "PodCannotStart"
    BACKING_OFF = "BackingOff"
    STOPPING = "Stopping"
    ENDED = "Ended"
    DELETING = "Deleting"
    DATA_KEPT = "DataKept"

    NOT_SUSPENDED = "NotSuspended"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"

    SCHEDULE_DONE = "ScheduleDone"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    STAGE_FAILED = "StageFailed"
    SPEC_ERROR = "SpecError"
    MODEL_ERROR = "ModelError"
    COLLAPSE_ERROR = "CollapseError"

    KFP_UNAVAILABLE = "KfpUnavailable"
    KFP_REFUSED = "KfpRefused"
    KUBERNETES_REFUSED = "KubernetesRefused"
    INTERNAL_ERROR = "InternalError"
    STORE_UNAVAILABLE = "StoreUnavailable"


BLOCKING = (
    Reason.INVALID_SPEC,
    Reason.NO_PRIORITY_CLASS,
    Reason.UNSCHEDULABLE,
    Reason.POD_NOT_CREATED,
    Reason.POD_CANNOT_START,
    Reason.KUBERAY_UNAVAILABLE,
    Reason.AGENT_SANDBOX_UNAVAILABLE,
    Reason.KFP_UNAVAILABLE,
    Reason.KFP_REFUSED,
    Reason.KUBERNETES_REFUSED,
    Reason.INTERNAL_ERROR,
    Reason.STORE_UNAVAILABLE,
)
"""Reasons of Progressing by which a run waits for something that should not last."""


def stage_reason(name: str) -> Reason:
    """The reason for an error class of a stage; StageFailed for a class without one."""
    return next((reason for reason in Reason if reason.value == name), Reason.STAGE_FAILED)


class Condition(BaseModel):
    """A metav1.Condition."""

    model_config = ConfigDict(
        extra="ignore",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    type: str
    status: Truth
    reason: str
    message: str
    last_transition_time: Time
    observed_generation: int = 0


def with_condition(conditions: Iterable[Condition], condition: Condition) -> tuple[Condition, ...]:
    """`conditions` with `condition` added or replaced, in the order of `Kind`. The transition time
    is kept if the status does not change."""
    by_type = {one.type: one for one in conditions}
    before = by_type.get(condition.type)
    if before is not None and before.status == condition.status:
        since = before.last_transition_time
        condition = condition.model_copy(update={"last_transition_time": since})
    by_type[condition.type] = condition
    order = {kind.value: position for position, kind in enumerate(Kind)}
    return tuple(sorted(by_type.values(), key=lambda one: (order.get(one.type, 99), one.type)))
