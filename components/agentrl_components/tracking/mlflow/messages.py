"""Messages between the tracker and its worker process, and the worker's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DATABASE = "mlflow.db"
"""File name of MLflow's database in a run's folder, used if no server is set."""

_CHILD_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OMP_NUM_THREADS": "1",
}
"""Defaults of the worker's environment; variables that the user has set take precedence."""

_TASK_VARIABLES = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")
_SERVER_VARIABLES = ("MLFLOW_TRACKING_AUTH", "MLFLOW_WORKSPACE")
"""Variables that a KFP backend with MLflow (2.17) may set in a task's pod: its MLflow run for the
task, and the authentication of its server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The MLflow run to record in. Sent as the first message."""

    uri: str
    """Tracking URI."""
    artifacts: str | None
    """Artifact location of a new experiment. None: the server's default."""
    experiment: str
    run_name: str
    run_id: str | None
    """Resume this run, if it exists; else create one."""
    uid: str | None
    """Without `run_id`: resume the run that was created with this tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The last message. `status`: FINISHED, FAILED, KILLED; RUNNING if another process goes on."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The worker's reply to one message."""

    error: str | None = None
    transient: bool = False
    """The error may go away, so the job is sent again."""
    run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Sent before the reply: the worker begins to read or to upload a file of a model."""

    size: int
    """Bytes of the file."""


def target(
    folder: Path,
    uri: str | None,
    experiment: str,
    run_name: str,
    run_id: str | None,
) -> Target:
    """The target from the manifest's tracking fields and the environment variables of MLflow.

    Without `uri`, MLFLOW_RUN_ID names a run to resume; else the database in `folder` is used."""
    from_environment = os.environ.get("MLFLOW_RUN_ID") if uri is None else None
    if from_environment:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    local = uri is None
    return Target(
        uri=uri if uri is not None else database_uri(folder),
        artifacts=(folder / "mlartifacts").as_uri() if local else None,
        experiment=experiment,
        run_name=run_name,
        run_id=run_id or from_environment,
        uid=None,
    )


def database_uri(folder: Path) -> str:
    """The tracking URI of the database in a run's folder."""
    return f"sqlite:///{folder.absolute() / DATABASE}"


def worker_environment(uri: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's environment variables, with `uri` as its server.

    Variables that refer to another run or to another server are left out."""
    other_server = environment.get("MLFLOW_TRACKING_URI", uri).rstrip("/") != uri.rstrip("/")
    excluded = _TASK_VARIABLES + (_SERVER_VARIABLES if other_server else ())
    kept = {name: value for name, value in environment.items() if name not in excluded}
    return {**_CHILD_ENVIRONMENT, **kept, "MLFLOW_TRACKING_URI": uri}
