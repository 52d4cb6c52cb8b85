"""The process that writes to MLflow, for tests that send it jobs and read the database as SQL."""

import os
import pickle
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrl_components.tracking.mlflow.messages import Finish, Progress, Reply, Target
from agentrl_components.tracking.mlflow.tracker import WORKER
from agentrl_components.tracking.send_queue import Job


class Worker:
    """Sends jobs to the process and reads its replies."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.progress: list[int] = []
        """Sizes of the files that the process has told of."""

    def ask(self, job: Job | Target | Finish) -> Reply:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        pickle.dump(job, self.process.stdin)
        self.process.stdin.flush()
        while isinstance(reply := pickle.load(self.process.stdout), Progress):
            self.progress.append(reply.size)
        assert isinstance(reply, Reply)
        return reply

    def start(self, run_id: str | None = None, uid: str | None = None) -> str:
        reply = self.ask(
            Target(
                uri=f"sqlite:///{self.folder / 'mlflow.db'}",
                artifacts=(self.folder / "mlartifacts").as_uri(),
                experiment="agentrl",
                run_name="babyai",
                run_id=run_id,
                uid=uid,
            )
        )
        assert reply.error is None
        assert reply.run_id is not None
        return reply.run_id

    def open(self, uri: str) -> Reply:
        """Open a run at a tracking server."""
        return self.ask(
            Target(
                uri=uri,
                artifacts=None,
                experiment="agentrl",
                run_name="babyai",
                run_id=None,
                uid=None,
            )
        )

    def rows(self, query: str, *values: str) -> list[tuple]:
        database = sqlite3.connect(self.folder / "mlflow.db")
        try:
            return database.execute(query, values).fetchall()
        finally:
            database.close()


@contextmanager
def running_worker(folder: Path) -> Iterator[Worker]:
    """A worker that has imported MLflow and created its tables in `folder`."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            WORKER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={
                **os.environ,
                "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
                "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
                "MLFLOW_DISABLE_TELEMETRY": "true",
                "OMP_NUM_THREADS": "1",
            },
        )
    with process:
        started = Worker(process, folder)
        started.start()
        yield started
