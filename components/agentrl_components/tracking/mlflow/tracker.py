"""MLflow as the tracker of a run.

MLflow runs in a process of its own (`mlflow_worker`): importing it takes seconds of the
interpreter's lock, and a server that hangs can be left behind only with a process. Here is a thread
that hands it one job at a time. What a call costs the caller is a dict update; nothing raises,
nothing waits but `close`, which has a deadline.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentrl_components.errors import RunError, TrackerError
from agentrl_components.tracking.mlflow.messages import (
    Finish,
    Reply,
    Target,
    target,
    worker_environment,
)
from agentrl_components.tracking.send_queue import Artifact, Job, Model, Outbox, describe
from agentrl_components.trajectory.record import Trajectory

WORKER = (sys.executable, "-P", "-m", "agentrl_components.tracking.mlflow.worker")
"""The command of the process that speaks to MLflow. -P: files in the person's current folder must
not be taken for modules."""


class MlflowTracker:
    """A `Tracker` that records in MLflow.

    `folder` holds `mlflow.db` and `mlartifacts/` where no `uri` is given, and the worker's log,
    `mlflow.log`, in any case. `on_run` is told the id of the run as soon as there is one, from
    another thread; give it back as `run_id` to resume. Without `run_id` and `uri`, MLFLOW_RUN_ID is
    resumed where it is set. With a `uri` it is not: what a KFP backend with MLflow sets there is a
    run of one task, and a run here goes over many.

    `past`, given the time in ms, is asked once, from that thread too, as soon as MLflow answers:
    for all that was done before, since who did it may have been killed or have met a server that
    was down.

    The thread starts with the first thing to record, the worker with it or with `prepare`.

    `close` gives up after `deadline_s`. A server that is away is known sooner, from its requests;
    the rest is for a machine so busy that the worker, which gives way to all others, hardly runs.
    """

    def __init__(
        self,
        folder: Path,
        *,
        uri: str | None = None,
        experiment: str = "agentrl",
        run_name: str = "agentrl",
        run_id: str | None = None,
        uid: str | None = None,
        on_run: Callable[[str], None] | None = None,
        past: Callable[[int], Iterable[Job]] | None = None,
        deadline_s: float = 300.0,
        pause_s: float = 1.0,
        worker: Sequence[str] = WORKER,
    ) -> None:
        self._folder = folder.absolute()
        self._target = target(self._folder, uri, experiment, run_name, run_id, uid)
        self._on_run = on_run
        self._past = past
        self._told_past = False
        self._sending: Job | None = None
        self._deadline_s = deadline_s
        self._pause_s = pause_s
        self._worker = worker
        self._outbox = Outbox()
        self._failed: list[str] = []
        self._status: str | None = None
        self._run_id: str | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._beginning = threading.Lock()
        self._given_up = False
        """Nobody waits for a worker any more: none is started."""
        self._connected = False
        self.problem: str | None = None
        """Why nothing is recorded at present, for a person who watches. None: all is well."""
        self._thread = threading.Thread(target=self._send_all, name="mlflow", daemon=True)

    @property
    def uri(self) -> str:
        """The tracking URI."""
        return self._target.uri

    @property
    def run_id(self) -> str | None:
        """Of the MLflow run; None until the tracker has answered."""
        return self._run_id

    def prepare(self) -> None:
        """Start the worker now: it loads MLflow while the caller loads its model."""
        with contextlib.suppress(OSError):  # it is tried again, and told, in the thread
            self._begin()

    def params(self, values: Mapping[str, str]) -> None:
        """They come first, and the thread would wait for the lock that the caller's imports hold:
        so the worker is started here."""
        self.prepare()
        self._waiting().params(values)

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self._waiting().metrics(iteration, _now_ms(), values)

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        self._waiting().episodes(iteration, name, _now_ms(), episodes)

    def artifact(self, path: Path) -> None:
        self._waiting().add(Artifact(path=path.absolute()))

    def model(self, folder: Path, name: str) -> None:
        self._waiting().add(Model(folder=folder.absolute(), name=name))

    def close(self, status: str) -> list[str]:
        self._status = self._status or status
        self._waiting().close()
        self._thread.join(self._deadline_s)
        if self._thread.is_alive():
            known = self.problem
            self._give_up()
            self._thread.join(5.0)
            self.problem = known or f"MLflow at {self.uri} did not answer in time"
        failed, self._failed = self._failed, []
        if self._outbox.dropped:
            failed.append(f"{self._outbox.dropped} batches of episodes that had waited too long")
        under_way = self._sending  # by a thread that did not even see its process die
        waiting = ([describe(under_way)] if under_way is not None else []) + self._outbox.left()
        left = [f"not recorded: {line}" for line in waiting]
        if left and self._past is not None:
            left.append("the same command again records what the run's store holds of this")
        return failed + ([self.problem] if left and self.problem else []) + left

    def _waiting(self) -> Outbox:
        """What is to be sent, and that it is being sent."""
        with self._beginning:
            if self._thread.ident is None:
                self._thread.start()
        return self._outbox

    def _send_all(self) -> None:
        pause_s = self._pause_s
        try:
            while (job := self._outbox.take()) is not None:
                closing = self._outbox.closed
                self._sending = job
                sent = self._send(job)
                self._sending = None
                if sent:
                    pause_s = self._pause_s
                elif closing:
                    return
                else:
                    pause_s = min(2 * pause_s + 0.1, 60.0)
                # Between two jobs metrics pile up, so that a fast run makes few requests.
                self._outbox.wait_closed(pause_s)
            if self._status is not None and self._connected:
                self._note(self._ask(Finish(status=self._status)), "the run's status")
        finally:
            self._stop()

    def _send(self, job: Job) -> bool:
        """False: not now; the job waits again."""
        reply = Reply() if self._connected else self._connect()
        if reply.error is None:
            reply = self._ask(job)
            if not reply.passing:
                self.problem = None
                self._note(reply, describe(job))
                return True
        self.problem = f"MLflow at {self.uri}: {reply.error}"
        self._outbox.put_back(job)
        return False

    def _connect(self) -> Reply:
        try:
            self._begin()
        except OSError as error:
            return Reply(error=str(error), passing=True)
        reply = self._ask(self._target)
        if reply.run_id is None:
            return reply
        self._connected = True
        self._run_id = reply.run_id
        self._target = replace(self._target, run_id=reply.run_id)
        if self._on_run is not None:
            try:
                self._on_run(reply.run_id)
            except RunError as error:
                self._failed.append(f"the run's id could not be kept: {error}")
        self._tell_past()
        return reply

    def _tell_past(self) -> None:
        """Once; what was done since then is newer, and wins."""
        if self._past is None or self._told_past:
            return
        self._told_past = True
        try:
            for job in self._past(_now_ms()):
                self._outbox.put_back(job)
        except RunError as error:
            self._failed.append(f"what the run's store holds could not be told again: {error}")

    def _begin(self) -> None:
        """The worker, unless it runs already. Raises `OSError` where it cannot be started."""
        with self._beginning:
            if self._given_up:
                raise ConnectionAbortedError("there was no answer in time")
            if self._process is None:
                self._process = self._start()

    def _give_up(self) -> None:
        """End the worker, whatever it does. The thread must not start another for what waits."""
        with self._beginning:
            self._given_up = True
            if self._process is not None:
                self._process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "mlflow.log").open("ab") as log:
            return subprocess.Popen(
                self._worker,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(self._target.uri, os.environ),
            )

    def _ask(self, job: Job | Target | Finish) -> Reply:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(job, process.stdin)
            process.stdin.flush()
            reply: Any = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.PickleError):
            self._stop()
            return Reply(error=f"the worker died; see {self._folder / 'mlflow.log'}", passing=True)
        assert isinstance(reply, Reply)
        return reply

    def _note(self, reply: Reply, what: str) -> None:
        if reply.error is not None:
            self._failed.append(f"{what}: {TrackerError(reply.error)}")

    def _stop(self) -> None:
        """Of what it has answered nothing is left to do, so the worker need not end by itself."""
        with self._beginning:
            process, self._process, self._connected = self._process, None, False
        if process is None:
            return
        process.kill()
        with contextlib.suppress(OSError), process:  # closes the pipes, and waits
            pass


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
