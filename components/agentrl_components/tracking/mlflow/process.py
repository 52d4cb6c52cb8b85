"""The worker process as the tracker sees it: started when needed, asked one job at a time, killed
if it hangs."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agentrl_components.tracking.mlflow.messages import (
    Finish,
    Progress,
    Reply,
    Target,
    worker_environment,
)
from agentrl_components.tracking.send_queue import Job


class WorkerProcess:
    """The process that records in MLflow.

    Args:
        command: its command line.
        folder: holds its log, `mlflow.log`.
        uri: the tracking URI, for its environment variables.
        on_progress: called with the size in bytes of each file that it begins to read or upload.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        uri: str,
        on_progress: Callable[[int], None],
    ) -> None:
        self._command = command
        self._folder = folder
        self._uri = uri
        self._on_progress = on_progress
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._given_up = False
        """No process is started any more."""
        self.connected = False
        """Whether it has opened the MLflow run. Set by the tracker; False after `stop`."""

    def ensure(self) -> None:
        """Start the process, unless it runs. Raises `OSError` if it cannot be started."""
        with self._lock:
            if self._given_up:
                raise ConnectionAbortedError("MLflow did not answer in time")
            if self._process is None:
                self._process = self._start()

    def ask(self, message: Job | Target | Finish) -> Reply:
        """Send one message and wait for the reply. A process that dies is a transient error: the
        next `ensure` starts another one."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
            reply: Any
            while isinstance(reply := pickle.load(process.stdout), Progress):
                self._on_progress(reply.size)
        except (EOFError, OSError, pickle.PickleError):
            self.stop()
            return Reply(
                error=f"the worker process died; see {self._folder / 'mlflow.log'}", transient=True
            )
        assert isinstance(reply, Reply)
        return reply

    def give_up(self) -> None:
        """Kill the process, and start no other one."""
        with self._lock:
            self._given_up = True
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """Kill the process. Every job that it has replied to is complete."""
        with self._lock:
            process, self._process, self.connected = self._process, None, False
        if process is None:
            return
        process.kill()
        with contextlib.suppress(OSError), process:  # closes the pipes and waits
            pass

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "mlflow.log").open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=worker_environment(self._uri, os.environ),
            )
