"""The stores of runs and MLflow in memory, as far as the operator uses them."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrl_components.schedule.record import Decision
from agentrl_components.spec import Storage
from agentrl_components.storage.records import RunState, TrackerRecord
from agentrl_operator.errors import MlflowError, RunStoreError


@dataclass(slots=True)
class RunData:
    """The stored data of one run."""

    state: RunState | None = None
    decisions: dict[int, Decision] = field(default_factory=dict)
    mlflow_run: str | None = None
    mlflow_uri: str | None = None


class MemoryStores:
    """`Stores` in memory, by URL."""

    def __init__(self) -> None:
        self.runs: dict[str, RunData] = {}
        self.down = False
        """Every request fails."""
        self.partial_deletions = 0
        """How many of the next calls of `delete_run_data` leave something."""

    def run(self, url: str | None) -> RunData:
        """The data of the run at this URL, which is created if there is none."""
        return self.runs.setdefault(url or "", RunData())

    async def read_state(self, storage: Storage) -> RunState | None:
        return self._run(storage).state

    async def read_decision(self, storage: Storage, phase: int) -> Decision | None:
        return self._run(storage).decisions.get(phase)

    async def read_mlflow_run(self, storage: Storage) -> TrackerRecord:
        data = self._run(storage)
        return TrackerRecord(run_id=data.mlflow_run, uri=data.mlflow_uri)

    async def write_mlflow_run(self, storage: Storage, run_id: str, uri: str) -> None:
        data = self._run(storage)
        data.mlflow_run, data.mlflow_uri = run_id, uri

    async def delete_run_data(self, storage: Storage) -> bool:
        self._run(storage)
        if self.partial_deletions:
            self.partial_deletions -= 1
            return False
        del self.runs[storage.url or ""]
        return True

    def _run(self, storage: Storage) -> RunData:
        if self.down:
            raise RunStoreError("the store: connection refused")
        return self.run(storage.url)


class MemoryTracking:
    """`Tracking` in memory."""

    def __init__(self) -> None:
        self.created: dict[str, str] = {}
        """Ids of MLflow runs, by the uid of their AgentRLRun."""
        self.finished: dict[str, str] = {}
        """Final status of MLflow runs, by their id."""
        self.finished_on: dict[str, str] = {}
        """The server that was asked to finish them, by their id."""
        self.down = False
        """Every request fails."""

    async def ensure_run(self, uri: str, experiment: str, name: str, uid: str) -> str:
        if self.down:
            raise MlflowError("MLflow: connection refused")
        return self.created.setdefault(uid, f"mlflow-{len(self.created)}")

    async def finish_run(self, uri: str, run_id: str, status: str) -> None:
        if self.down:
            raise MlflowError("MLflow: connection refused")
        self.finished[run_id] = status
        self.finished_on[run_id] = uri
