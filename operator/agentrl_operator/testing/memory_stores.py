"""Runs' stores and MLflow in memory, as far as the operator asks them."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentrl_components.spec import Storage
from agentrl_components.storage.records import State, Verdict
from agentrl_operator.errors import MlflowError, StandingError


@dataclass(slots=True)
class Shelf:
    """What a run has stored."""

    standing: State | None = None
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    mlflow_run: str | None = None


class MemoryStores:
    """The stores of all runs, by address."""

    def __init__(self) -> None:
        self.shelves: dict[str, Shelf] = {}
        self.down = False

    def shelf(self, url: str | None) -> Shelf:
        """One run's."""
        return self.shelves.setdefault(url or "", Shelf())

    async def standing(self, storage: Storage) -> State | None:
        return self._asked(storage).standing

    async def verdict(self, storage: Storage, phase: int) -> Verdict | None:
        return self._asked(storage).verdicts.get(phase)

    async def tracked(self, storage: Storage) -> str | None:
        return self._asked(storage).mlflow_run

    async def track(self, storage: Storage, run_id: str) -> None:
        self._asked(storage).mlflow_run = run_id

    async def erase(self, storage: Storage) -> bool:
        self._asked(storage)
        del self.shelves[storage.url or ""]
        return True

    def _asked(self, storage: Storage) -> Shelf:
        if self.down:
            raise StandingError("the store: connection refused")
        return self.shelf(storage.url)


class MemoryTracking:
    """MLflow's runs, by the uid of what they show."""

    def __init__(self) -> None:
        self.opened: dict[str, str] = {}
        self.closed: dict[str, str] = {}
        self.down = False

    async def open(self, uri: str, experiment: str, name: str, uid: str) -> str:
        if self.down:
            raise MlflowError("MLflow: connection refused")
        return self.opened.setdefault(uid, f"mlflow-{len(self.opened)}")

    async def close_run(self, uri: str, run_id: str, status: str) -> None:
        if self.down:
            raise MlflowError("MLflow: connection refused")
        self.closed[run_id] = status
