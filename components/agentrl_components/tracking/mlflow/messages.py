"""What the tracker and the process that speaks to MLflow say to each other: where to record, and
how each job went."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DATABASE = "mlflow.db"
"""MLflow's database in a run's folder, where no server is named."""

_CHILD_ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "OMP_NUM_THREADS": "1",
}
"""For the worker alone, where the person has set nothing else."""

_OF_A_TASK = ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID")
_OF_A_SERVER = ("MLFLOW_TRACKING_AUTH", "MLFLOW_WORKSPACE")
"""What a KFP backend with MLflow (2.17) may put into a task's pod: its own run for that task, and
how its own server is spoken to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to record."""

    uri: str
    """Tracking URI."""
    artifacts: str | None
    """Where a new experiment keeps its files. None: where the server says."""
    experiment: str
    run_name: str
    run_id: str | None
    """Resume this run. None, or there is no such run: a new one."""
    uid: str | None
    """Resume the run that was created with this tag, where `run_id` does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The last job: FINISHED, FAILED or KILLED, or RUNNING where another process goes on."""

    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The worker's answer to one job."""

    error: str | None = None
    passing: bool = False
    """The error may go away by itself."""
    run_id: str | None = None


def target(
    folder: Path,
    uri: str | None,
    experiment: str,
    run_name: str,
    run_id: str | None,
    uid: str | None,
) -> Target:
    """Where to record, given what the person and the environment say."""
    given = os.environ.get("MLFLOW_RUN_ID") if uri is None else None
    if given:
        uri = os.environ.get("MLFLOW_TRACKING_URI")
    local = uri is None
    return Target(
        uri=uri if uri is not None else database_uri(folder),
        artifacts=(folder / "mlartifacts").as_uri() if local else None,
        experiment=experiment,
        run_name=run_name,
        run_id=run_id or given,
        uid=uid,
    )


def database_uri(folder: Path) -> str:
    """The tracking URI of the database in a run's folder."""
    return f"sqlite:///{folder.absolute() / DATABASE}"


def worker_environment(uri: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's variables: `uri` is its server, and those that are of another run, or of another
    server, are left out."""
    other = environment.get("MLFLOW_TRACKING_URI", uri).rstrip("/") != uri.rstrip("/")
    foreign = _OF_A_TASK + (_OF_A_SERVER if other else ())
    kept = {name: value for name, value in environment.items() if name not in foreign}
    return {**_CHILD_ENVIRONMENT, **kept, "MLFLOW_TRACKING_URI": uri}
