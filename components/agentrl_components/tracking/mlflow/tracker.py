"""Tracker that records in MLflow through a worker process.

MLflow runs in a process of its own (`mlflow/worker.py`), since importing it holds the GIL for
seconds, and only a process can be abandoned if a server hangs. A thread of this process sends it
one job at a time. A call costs the caller a dict update. No method raises, and only `close` waits,
with a deadline. What goes wrong is told at once, and again by `close`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentrl_components.errors import RunError, TrackerError
from agentrl_components.tracking.mlflow.messages import Finish, Reply, target
from agentrl_components.tracking.mlflow.outage_notes import OutageNotes
from agentrl_components.tracking.mlflow.process import WorkerProcess
from agentrl_components.tracking.send_queue import (
    Artifact,
    Description,
    Job,
    Model,
    SendQueue,
    describe,
)
from agentrl_components.trajectory.record import Trajectory

WORKER = (sys.executable, "-P", "-m", "agentrl_components.tracking.mlflow.worker")
"""Command of the worker process. -P: files in the current folder must not shadow modules."""
_SLOWEST_BYTES_PER_S = 1_000_000
_FAILURES_PER_KIND = 2
"""While closing, the other jobs of a kind are left out after so many of them failed."""


class MlflowTracker:
    """A `Tracker` that records in MLflow.

    Args:
        folder: holds the worker's log `mlflow.log`, and without `uri` also `mlflow.db` and
            `mlartifacts/`.
        uri: tracking URI. Without `uri` and `run_id`, the run MLFLOW_RUN_ID is resumed if set. With
            a `uri` it is not: a KFP backend with MLflow sets it to the run of one task.
        run_id: the MLflow run to resume.
        uid: called without `run_id` before the MLflow run is opened, in the tracker's thread.
            Returns the tag by which the run is found, and created if there is none: the same one
            whenever it is called for this run, also by a later process.
        on_run_id: called with the id of the MLflow run as soon as it is known, in the tracker's
            thread. Store it and pass it as `run_id` to resume.
        backfill: called once with the time in ms, in the tracker's thread, when MLflow has
            answered. Returns jobs for everything that was recorded earlier, since the
            process that did it may have been killed, or the server may have been down.
        deadline_s: `close` gives up after this many seconds. Unreachable servers are noticed
            earlier; the deadline is for a busy machine on which the niced worker hardly runs. It
            begins again with each file of a model, which has a second more per megabyte.
        pause_s: pause between two jobs, in which metrics accumulate.
        note: called with a line for people, in the tracker's thread, when an outage begins and when
            it is over, and for the first job of each kind that MLflow refuses; and by `close`, if
            it takes longer than `patience_s` seconds.

    The thread starts with the first record, the worker with the thread or with `prepare`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        uri: str | None = None,
        experiment: str = "agentrl",
        run_name: str = "agentrl",
        run_id: str | None = None,
        uid: Callable[[], str] | None = None,
        on_run_id: Callable[[str], None] | None = None,
        backfill: Callable[[int], Iterable[Job]] | None = None,
        deadline_s: float = 300.0,
        pause_s: float = 1.0,
        worker: Sequence[str] = WORKER,
        note: Callable[[str], None] = lambda text: None,
        patience_s: float = 5.0,
    ) -> None:
        self._folder = folder.absolute()
        self._target = target(self._folder, uri, experiment, run_name, run_id)
        self._uid = uid
        self._on_run_id = on_run_id
        self._backfill = backfill
        self._backfilled = False
        self._sending: Job | None = None
        self._deadline_s = deadline_s
        self._pause_s = pause_s
        self._note, self._outage = note, OutageNotes(note)
        self._patience_s = patience_s
        self._worker = WorkerProcess(worker, self._folder, self._target.uri, self._note_progress)
        self._expected_by = 0.0
        """The next sign of life of an upload is expected by then, by `time.monotonic`."""
        self._queue = SendQueue()
        self._refused: dict[str, list[str]] = {}
        """Descriptions of what MLflow does not take, by its error."""
        self._noted_refusals: set[type[Job]] = set()
        self._unsent: list[tuple[Job, str]] = []
        """Jobs that could not be sent while closing, although MLflow answered, and why."""
        self._failed: list[str] = []
        self._status: str | None = None
        self._run_id: str | None = None
        self._thread_lock = threading.Lock()
        self.problem: str | None = None
        """Why nothing can be recorded at present. None: no problem."""
        self._thread = threading.Thread(target=self._send_all, name="mlflow", daemon=True)

    @property
    def uri(self) -> str:
        """The tracking URI."""
        return self._target.uri

    @property
    def run_id(self) -> str | None:
        """Id of the MLflow run; None until MLflow has answered."""
        return self._run_id

    def prepare(self) -> None:
        """Start the worker now, so that it imports MLflow while the caller loads its model."""
        with contextlib.suppress(OSError):  # retried, and reported, in the thread
            self._worker.ensure()

    def params(self, values: Mapping[str, str]) -> None:
        """Record the flattened manifest. The first call of a run: it starts the worker here, since
        the thread would wait for the import lock that the caller may hold."""
        self.prepare()
        self._started_queue().params(values)

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self._started_queue().metrics(iteration, _now_ms(), values)

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        self._started_queue().episodes(iteration, name, _now_ms(), episodes)

    def artifact(self, path: Path) -> None:
        self._started_queue().add(Artifact(path=path.absolute()))

    def model(self, folder: Path, name: str, description: str, metadata: Mapping[str, Any]) -> None:
        job = Model(folder=folder.absolute(), name=name, description=description, metadata=metadata)
        self._started_queue().add(job)

    def describe(self, text: str) -> None:
        self._started_queue().add(Description(text=text))

    def close(self, status: str) -> list[str]:
        self._status = self._status or status
        self._started_queue().close()
        self._expected_by = max(self._expected_by, time.monotonic() + self._deadline_s)
        self._thread.join(min(self._patience_s, self._deadline_s))
        if self._thread.is_alive():
            self._note(f"sending the last records to MLflow at {self.uri}")
        while self._thread.is_alive() and (left_s := self._expected_by - time.monotonic()) > 0:
            self._thread.join(left_s)
        if self._thread.is_alive():
            problem = self.problem
            self._worker.give_up()
            self._thread.join(5.0)
            self.problem = problem or f"MLflow at {self.uri} did not answer in time"
        failed, self._failed = self._failed, []
        failed += [_refusal(error, what) for error, what in self._refused.items()]
        self._refused = {}
        if self._queue.dropped:
            failed.append(
                f"{self._queue.dropped} batches of episodes were dropped from the full queue"
            )
        unfinished = self._sending  # the thread may still be waiting for its reply
        waiting = ([describe(unfinished)] if unfinished is not None else []) + self._queue.drain()
        unsent = [f"{describe(job)}: {TrackerError(error)}" for job, error in self._unsent]
        self._unsent = []
        unrecorded = [f"not recorded: {line}" for line in unsent + waiting]
        if unrecorded and self._backfill is not None:
            unrecorded.append("run the same command again to record what the run's store holds")
        return failed + ([self.problem] if waiting and self.problem else []) + unrecorded

    def _note_progress(self, size: int) -> None:
        """Have `close` wait for a file of a model, of `size` bytes, longer than for an answer."""
        seconds = self._deadline_s + size / _SLOWEST_BYTES_PER_S
        self._expected_by = max(self._expected_by, time.monotonic() + seconds)

    def _started_queue(self) -> SendQueue:
        """The queue, with the thread that sends it started."""
        with self._thread_lock:
            if self._thread.ident is None:
                self._thread.start()
        return self._queue

    def _send_all(self) -> None:
        pause_s = self._pause_s
        try:
            while (job := self._queue.take()) is not None:
                closing = self._queue.closed
                self._sending = job
                sent = self._send(job, closing)
                self._sending = None
                if sent:
                    pause_s = self._pause_s
                elif closing:
                    return
                else:
                    pause_s = min(2 * pause_s + 0.1, 60.0)
                # Metrics accumulate meanwhile, so that a fast run makes few requests.
                self._queue.wait_closed(pause_s)
            if self._status is not None and self._worker.connected:
                self._keep_error(self._worker.ask(Finish(status=self._status)), "the run's status")
        finally:
            self._worker.stop()

    def _send(self, job: Job, closing: bool) -> bool:
        """Send one job, or leave it out. False: it could not be sent now and was returned to the
        queue."""
        if closing and self._is_left_out(type(job)):
            reason = next(error for one, error in self._unsent if type(one) is type(job))
            self._unsent.append((job, reason))
            return True
        reply = Reply() if self._worker.connected else self._connect()
        answers = reply.error is None
        if answers:
            reply = self._worker.ask(job)
            if not reply.transient:
                self.problem = None
                self._keep_error(reply, describe(job))
                self._note_answer(job, reply)
                return True
        # There is no later time at which it could be sent. If MLflow answers, the others can.
        if closing and answers and self._connect().error is None:
            self._unsent.append((job, str(reply.error)))
            self._queue.postpone(type(job))
            return True
        self.problem = f"MLflow at {self.uri}: {reply.error}"
        if not self._queue.closed:  # else `close` returns it
            self._note_problem(reply, answers=answers)
        # MLflow answered before this job, which may be the only one that it does not take.
        self._queue.put_back(job, behind=answers)
        return False

    def _note_problem(self, reply: Reply, *, answers: bool) -> None:
        """Note why a job was not sent. Errors of jobs count as one cause: their texts have names
        and numbers of the job."""
        later = "records are kept, of episodes the latest, and sent when it takes them"
        if not answers and not reply.transient:
            later += (
                "; if its address (spec.tracking.uri) or the credentials are wrong, correct them "
                "and start the run again: it resumes"
            )
        problem = str(self.problem).rstrip(".")
        self._outage.failed("" if answers else str(reply.error), f"{problem}; {later}")

    def _note_answer(self, job: Job, reply: Reply) -> None:
        """Note that MLflow took everything after an outage, or that it refused the first job of a
        kind."""
        if self._queue.empty:
            sent = f"MLflow at {self.uri} takes records again; all that were kept are sent"
            self._outage.recovered(sent)
        if reply.error is not None and type(job) not in self._noted_refusals:
            self._noted_refusals.add(type(job))
            if not self._queue.closed:
                self._note(f"MLflow at {self.uri} refuses {describe(job)}: {reply.error}")

    def _is_left_out(self, kind: type[Job]) -> bool:
        """Whether so many jobs of this kind failed that no other one is tried: each of them may
        take the time of a timeout."""
        return sum(type(job) is kind for job, _ in self._unsent) >= _FAILURES_PER_KIND

    def _connect(self) -> Reply:
        try:
            self._worker.ensure()
        except OSError as error:
            return Reply(error=str(error), transient=True)
        if self._uid is not None and self._target.run_id is None and self._target.uid is None:
            try:
                self._target = replace(self._target, uid=self._uid())
            except RunError as error:
                return Reply(error=f"the run's tag could not be stored: {error}", transient=True)
        reply = self._worker.ask(self._target)
        if reply.run_id is None:
            return reply
        self._worker.connected = True
        self._run_id = reply.run_id
        self._target = replace(self._target, run_id=reply.run_id)
        if self._on_run_id is not None:
            try:
                self._on_run_id(reply.run_id)
            except RunError as error:
                self._failed.append(f"the id of the MLflow run could not be stored: {error}")
        self._add_backfill()
        return reply

    def _add_backfill(self) -> None:
        """Queue the backfill, once. Values that are queued already take precedence."""
        if self._backfill is None or self._backfilled:
            return
        self._backfilled = True
        try:
            for job in self._backfill(_now_ms()):
                self._queue.put_back(job)
        except RunError as error:
            self._failed.append(f"earlier records of the run could not be read: {error}")

    def _keep_error(self, reply: Reply, what: str) -> None:
        if reply.error is not None:
            self._refused.setdefault(reply.error, []).append(what)


def _refusal(error: str, what: list[str]) -> str:
    """One line for everything that MLflow refused with the same error."""
    more = f" and {len(what) - 1} more" if len(what) > 1 else ""
    return f"{what[0]}{more}: {TrackerError(error)}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
