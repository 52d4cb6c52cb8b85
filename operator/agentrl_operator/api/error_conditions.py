"""The Progressing condition of a run whose reconciliation failed."""

from __future__ import annotations

from datetime import datetime

from agentrl_operator.api.conditions import Reason, Truth
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.errors import DependencyError, KfpError, KubernetesError, RunStoreError


def with_dependency_error(status: Status, error: DependencyError, now: datetime) -> Status:
    """`status` with the error of a dependency in its Progressing condition."""
    if isinstance(error, KubernetesError) and error.status in (0, 409):
        return status  # a conflict or a restart of the API server: the next try is enough
    truth: Truth = "Unknown" if error.retryable else "False"
    if isinstance(error, KfpError):
        reason = Reason.KFP_UNAVAILABLE if error.retryable else Reason.KFP_REFUSED
    elif isinstance(error, RunStoreError):
        reason = Reason.STORE_UNAVAILABLE
    else:
        reason = Reason.KUBERNETES_REFUSED
    return status.with_progressing(truth, reason, str(error), now)


def with_internal_error(
    status: Status, resource: Resource, error: Exception | None, now: datetime
) -> Status:
    """`status` with an unexpected error in its Progressing condition."""
    message = f"internal error of the operator, see its log: {error!r}"
    return status.with_(observed_generation=resource.generation).with_progressing(
        "Unknown", Reason.INTERNAL_ERROR, message, now
    )
