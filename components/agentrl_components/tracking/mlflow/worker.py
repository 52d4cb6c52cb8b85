"""The worker process of the MLflow tracker: `python -m agentrl_components.tracking.mlflow.worker`.

Reads pickled jobs from stdin and writes a pickled reply to each to stdout. It ends when stdin is
closed, so it never outlives the run. Jobs are idempotent: one that is sent twice is recorded once.
"""

from __future__ import annotations

import math
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

from agentrl_components.tracking.mlflow.database import create_database
from agentrl_components.tracking.mlflow.failure import is_transient, line
from agentrl_components.tracking.mlflow.light_import import lighten_import
from agentrl_components.tracking.mlflow.messages import Finish, Progress, Reply, Target
from agentrl_components.tracking.mlflow.registry import Registry
from agentrl_components.tracking.send_queue import (
    Artifact,
    Description,
    Episodes,
    Job,
    Metrics,
    Model,
    Params,
)
from agentrl_components.workers.imports import collection_disabled

_INVALID_CHARACTERS = re.compile(r"[^\w\-. :/]+", re.ASCII)
_DOTS = re.compile(r"\.{2,}")
_MAX_PARAM_LENGTH = 6000
_METRICS_PER_REQUEST = 1000
_PARAMS_PER_REQUEST = 100
_Point = tuple[str, int, float | None]
"""Name, iteration and value of a metric; None stands for NaN, which equals nothing."""
_UID_TAG = "agentrl.uid"


class Recorder:
    """Records jobs in one MLflow run.

    Args:
        target: the run.
        progress: called with the size in bytes of each file of a model that is to be read or
            uploaded.
    """

    def __init__(self, target: Target, progress: Callable[[int], None] = lambda size: None) -> None:
        from mlflow import MlflowClient

        create_database(target.uri)
        self._client = MlflowClient(tracking_uri=target.uri, registry_uri=target.uri)
        self._uri = target.uri
        self._progress = progress
        run = self._resume_run(target) or self._create_run(target)
        self.run_id: str = run.info.run_id
        self._experiment_id: str = run.info.experiment_id
        self._artifacts: str = run.info.artifact_uri
        self._params: set[str] = set(run.data.params)
        self._recorded: set[_Point] = set()
        for key in run.data.metrics:
            history = self._client.get_metric_history(self.run_id, key)
            self._recorded |= {_point(metric) for metric in history}

    def record(self, job: Job | Finish) -> None:
        """Record one job. Raises what MLflow raises."""
        match job:
            case Params():
                self._record_params(job.values)
            case Metrics():
                self._record_metrics(job.iterations)
            case Episodes():
                from agentrl_components.tracking.mlflow.traces import record_episodes

                record_episodes(self._uri, self._experiment_id, self.run_id, job)
            case Artifact():
                self._client.log_artifact(self.run_id, str(job.path))
            case Model():
                registry = Registry(self._client, self.run_id, self._artifacts, self._progress)
                registry.register(job)
            case Description():
                self._client.set_tag(self.run_id, "mlflow.note.content", job.text)
            case Finish():
                if job.status != "RUNNING":
                    self._client.set_terminated(self.run_id, job.status)

    def _resume_run(self, target: Target) -> Any:
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

    def _create_run(self, target: Target) -> Any:
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

    def _record_params(self, values: Mapping[str, str]) -> None:
        """Record the params that the run does not have. The others remain as they are, whatever
        was edited since: MLflow refuses to change them, and the whole request with them."""
        from mlflow.entities import Param

        named = {_name(key): value[:_MAX_PARAM_LENGTH] for key, value in values.items()}
        new = [Param(key, value) for key, value in named.items() if key not in self._params]
        for batch in _batches(new, _PARAMS_PER_REQUEST):
            self._client.log_batch(self.run_id, params=batch)
            self._params |= {param.key for param in batch}

    def _record_metrics(self, iterations: Mapping[int, tuple[int, Mapping[str, float]]]) -> None:
        """Record the values that the run does not have. A resumed run may repeat iterations with
        other values, as on GPUs: MLflow then has both, and shows the last one."""
        from mlflow.entities import Metric

        metrics = [
            Metric(_name(key), float(value), time_ms, iteration)
            for iteration, (time_ms, values) in iterations.items()
            for key, value in values.items()
        ]
        new = [metric for metric in metrics if _point(metric) not in self._recorded]
        for batch in _batches(new, _METRICS_PER_REQUEST):
            self._client.log_batch(self.run_id, metrics=batch)
            self._recorded |= {_point(metric) for metric in batch}


def serve(jobs: BinaryIO, replies: BinaryIO) -> None:
    """Reply to every job until `jobs` ends."""
    with collection_disabled():
        import mlflow  # noqa: F401  # here, since the import takes seconds

    def send(message: Reply | Progress) -> None:
        pickle.dump(message, replies)
        replies.flush()

    recorder: Recorder | None = None
    while True:
        try:
            job = pickle.load(jobs)
        except EOFError:
            return
        try:
            if isinstance(job, Target):
                recorder = Recorder(job, lambda size: send(Progress(size=size)))
            elif recorder is not None:
                recorder.record(job)
            reply = Reply(run_id=recorder.run_id if recorder else None)
        except Exception as error:  # noqa: BLE001  # the jobs behind this one must be recorded
            # A missing file stays missing; a server or a disk may come back.
            missing = isinstance(error, FileNotFoundError) and not isinstance(job, Target)
            reply = Reply(error=line(error), transient=not missing and is_transient(error))
        send(reply)


def main() -> None:
    """Serve on stdin and stdout."""
    # All are sent to the whole process group. The run handles them, and records that it stopped.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)
    lighten_import(os.environ.get("MLFLOW_TRACKING_URI", ""))
    # MLflow prints to stdout: redirect that to stderr, which is the log.
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, replies)


def _point(metric: Any) -> _Point:
    """What makes a recorded value the same as another one. MLflow records an infinite value as the
    largest finite one."""
    value = max(-sys.float_info.max, min(metric.value, sys.float_info.max))
    return metric.key, metric.step, None if math.isnan(metric.value) else value


def _name(key: str) -> str:
    """`key` with the characters that MLflow does not allow in names replaced."""
    return _DOTS.sub(".", _INVALID_CHARACTERS.sub(".", key)).strip(".")


def _batches(values: list[Any], size: int) -> Iterable[list[Any]]:
    return (values[start : start + size] for start in range(0, len(values), size))


if __name__ == "__main__":
    main()
