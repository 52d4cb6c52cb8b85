"""Errors of the operator, one class for each service that it depends on.

A mistake in a manifest is not an error here: it becomes a condition of the run.
"""

from __future__ import annotations

from typing import ClassVar

QUOTA_USED_UP = "exceeded quota"
"""Part of Kubernetes' message when a quota has no room for an object."""


class DependencyError(Exception):
    """A service that the operator depends on failed.

    The message names the service, the reason and, where there is one, the fix. The controller
    shows it in a condition of the run and reconciles the run again.
    """

    dependency: ClassVar[str] = "other"
    """Name of the service in metrics."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retryable: bool = True
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status of the response; 0 if there was no response."""
        self.reason = reason
        """The field `reason` of the response, by which Kubernetes tells causes of the same status
        apart; empty if it has none."""
        self.retryable = retryable
        """Whether the same request can succeed later without anybody changing anything."""


class KubernetesError(DependencyError):
    """The Kubernetes API server rejected a request or did not respond."""

    dependency = "kubernetes"


def is_quota_used_up(error: KubernetesError) -> bool:
    """Whether a ResourceQuota has no room for what a request creates."""
    return error.status == 403 and QUOTA_USED_UP in str(error)


class NotLeaderError(KubernetesError):
    """A write was not sent because this process may no longer be the leader."""

    dependency = "leader_election"


class KfpError(DependencyError):
    """Kubeflow Pipelines rejected a request or did not respond."""

    dependency = "kfp"


class MlflowError(DependencyError):
    """MLflow rejected a request or did not respond. It never stops a run."""

    dependency = "mlflow"


class ServerMetricsError(DependencyError):
    """An environment server did not answer a request for its metrics."""

    dependency = "environment_server"


class RunStoreError(DependencyError):
    """The object store of a run cannot be read or written."""

    dependency = "run_store"
