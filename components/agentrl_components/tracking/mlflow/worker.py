"""The process that speaks to MLflow: `python -m agentrl_components.tracking.mlflow.worker`.

Reads pickled jobs from its input and writes a pickled reply to each. It ends with its input, so it
never outlives the run. Every job may be done twice and is recorded once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from agentrl_components.tracking.mlflow.database import make_database
from agentrl_components.tracking.mlflow.light_import import lighten
from agentrl_components.tracking.mlflow.messages import Finish, Reply, Target
from agentrl_components.tracking.send_queue import Artifact, Episodes, Job, Metrics, Model, Params
from agentrl_components.workers.imports import loading

_FOREIGN = re.compile(r"[^\w\-. :/]+", re.ASCII)
_DOTS = re.compile(r"\.{2,}")
_PARAM_LENGTH = 6000
_METRICS_A_REQUEST = 1000
_PARAMS_A_REQUEST = 100
_UID_TAG = "agentrl.uid"
_HASH_TAG = "agentrl.sha256"


class Recorder:
    """One MLflow run."""

    def __init__(self, target: Target) -> None:
        from mlflow import MlflowClient

        make_database(target.uri)
        self._client = MlflowClient(tracking_uri=target.uri, registry_uri=target.uri)
        self._uri = target.uri
        run = self._resumed(target) or self._created(target)
        self.run_id: str = run.info.run_id
        self._experiment_id: str = run.info.experiment_id
        self._artifacts: str = run.info.artifact_uri
        self._recorded: dict[str, set[int]] = {}
        for key in run.data.metrics:
            history = self._client.get_metric_history(self.run_id, key)
            self._recorded[key] = {metric.step for metric in history}

    def do(self, job: Job | Finish) -> None:
        """Record one job."""
        match job:
            case Params():
                self._params(job.values)
            case Metrics():
                self._metrics(job.iterations)
            case Episodes():
                from agentrl_components.tracking.mlflow.traces import record

                record(self._uri, self._experiment_id, self.run_id, job)
            case Artifact():
                self._client.log_artifact(self.run_id, str(job.path))
            case Model():
                self._model(job.folder, job.name)
            case Finish():
                if job.status != "RUNNING":
                    self._client.set_terminated(self.run_id, job.status)

    def _resumed(self, target: Target) -> Any:
        from mlflow.exceptions import MlflowException

        run_id = target.run_id
        if run_id is None and target.uid is not None:
            experiment = self._client.get_experiment_by_name(target.experiment)
            if experiment is not None:
                found = self._client.search_runs(
                    [experiment.experiment_id],
                    f"tags.`{_UID_TAG}` = '{target.uid}'",
                    max_results=1,
                    order_by=["attributes.start_time ASC"],
                )
                run_id = found[0].info.run_id if found else None
        if run_id is None:
            return None
        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        if run.info.lifecycle_stage != "active":
            return None
        self._client.update_run(run_id, status="RUNNING")
        return run

    def _created(self, target: Target) -> Any:
        from mlflow.exceptions import MlflowException

        experiment = self._client.get_experiment_by_name(target.experiment)
        if experiment is None:
            try:
                experiment_id = self._client.create_experiment(target.experiment, target.artifacts)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                again = self._client.get_experiment_by_name(target.experiment)
                experiment_id = again.experiment_id
        else:
            experiment_id = experiment.experiment_id
        tags = {"mlflow.source.name": "agentrl"}
        if target.uid is not None:
            tags[_UID_TAG] = target.uid
        return self._client.create_run(experiment_id, run_name=target.run_name, tags=tags)

    def _params(self, values: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        params = [Param(_name(key), value[:_PARAM_LENGTH]) for key, value in values.items()]
        for batch in _batches(params, _PARAMS_A_REQUEST):
            self._client.log_batch(self.run_id, params=batch)

    def _metrics(self, iterations: Mapping[int, tuple[int, Mapping[str, float]]]) -> None:
        from mlflow.entities import Metric

        new = [
            Metric(_name(key), float(value), time_ms, iteration)
            for iteration, (time_ms, values) in iterations.items()
            for key, value in values.items()
            if iteration not in self._recorded.get(_name(key), ())
        ]
        for batch in _batches(new, _METRICS_A_REQUEST):
            self._client.log_batch(self.run_id, metrics=batch)
            for metric in batch:
                self._recorded.setdefault(metric.key, set()).add(metric.step)

    def _model(self, folder: Path, name: str) -> None:
        from mlflow.exceptions import MlflowException
        from mlflow.models import Model as Description

        digest = _digest(folder)
        place = f"model/{digest[:12]}"
        with contextlib.suppress(MlflowException):  # it is there already, or the next call says why
            self._client.create_registered_model(name)
        for version in self._client.search_model_versions(f"name = '{name}'"):
            if version.run_id == self.run_id and version.tags.get(_HASH_TAG) == digest:
                return
        self._client.log_artifacts(self.run_id, str(folder), place)
        with tempfile.TemporaryDirectory() as scratch:
            # Without this description of the folder, MLflow's own tools do not take it for a model.
            Description(artifact_path=place, run_id=self.run_id).save(f"{scratch}/MLmodel")
            self._client.log_artifact(self.run_id, f"{scratch}/MLmodel", place)
        self._client.create_model_version(
            name, f"{self._artifacts}/{place}", self.run_id, tags={_HASH_TAG: digest}
        )


def serve(jobs: BinaryIO, replies: BinaryIO) -> None:
    """Answer every job until the input ends."""
    with loading():
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

    recorder: Recorder | None = None
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        try:
            if isinstance(job, Target):
                recorder = Recorder(job)
            elif recorder is not None:
                recorder.do(job)
            reply = Reply(run_id=recorder.run_id if recorder else None)
        except MlflowException as error:
            status = error.get_http_status_code()
            reply = Reply(error=_line(error), passing=status >= 500 or status in (408, 429))
        except (OSError, SQLAlchemyError) as error:
            # A file that is gone stays gone; a server or a disk may come back.
            gone = isinstance(error, FileNotFoundError) and not isinstance(job, Target)
            reply = Reply(error=_line(error), passing=not gone)
        pickle.dump(reply, replies)
        replies.flush()


def main() -> None:
    """Serve on the standard streams."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's to handle
    os.nice(10)
    lighten(os.environ.get("MLFLOW_TRACKING_URI", ""))
    # MLflow prints; what it prints belongs in the log.
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, replies)


def _name(key: str) -> str:
    """A param's or metric's name, in the letters that MLflow allows."""
    return _DOTS.sub(".", _FOREIGN.sub(".", key)).strip(".")


def _batches(values: list[Any], size: int) -> Iterable[list[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:500]


if __name__ == "__main__":
    main()
