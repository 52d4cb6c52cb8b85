"""What can go wrong around the operator, one class per boundary. All of it is somebody else's
trouble: it is shown in a condition and tried again. The user's mistakes are no errors here, but
conditions."""

from __future__ import annotations


class Trouble(Exception):
    """A neighbour failed. The message names it, the reason and, where there is one, the fix."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable
        """Whether the same request can work later with nothing changed; else someone must act."""


class KubernetesError(Trouble):
    """The Kubernetes API refused or cannot be reached."""

    def __init__(self, message: str, *, status: int = 0, retryable: bool = True) -> None:
        super().__init__(message, retryable=retryable)
        self.status = status
        """HTTP status; 0: no answer."""


class LeaseError(KubernetesError):
    """This operator may change nothing any more: another one may act."""


class KfpError(Trouble):
    """Kubeflow Pipelines refused or cannot be reached."""


class MlflowError(Trouble):
    """MLflow refused or cannot be reached. Never stops a run."""


class StandingError(Trouble):
    """A run's store cannot be read."""
