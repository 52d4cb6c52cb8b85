"""The tracker, as the rest of a run sees it. Nothing here ever raises or waits for a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agentrl_components.trajectory.record import Trajectory


class Tracker(Protocol):
    """Params, metrics by iteration, artifacts, episodes."""

    def params(self, values: Mapping[str, str]) -> None:
        """Record the flattened manifest, once."""
        ...

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        """Record numbers of one iteration. Recording the same iteration again changes nothing."""
        ...

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        """Show episodes as traces: one span a turn."""
        ...

    def artifact(self, path: Path) -> None:
        """Keep a file."""
        ...

    def model(self, folder: Path, name: str) -> None:
        """Register the model in `folder` (transformers' layout) under `name`."""
        ...

    def close(self, status: str) -> list[str]:
        """Send what is left, within a deadline. `status` is FINISHED, FAILED or KILLED, or RUNNING
        where another process goes on. Returns what could not be recorded, a line each."""
        ...


class SilentTracker:
    """Records nothing: for processes whose partner does, and where there is no tracker."""

    def params(self, values: Mapping[str, str]) -> None:
        pass

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        pass

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        pass

    def artifact(self, path: Path) -> None:
        pass

    def model(self, folder: Path, name: str) -> None:
        pass

    def close(self, status: str) -> list[str]:
        del status
        return []


class MemoryTracker:
    """Keeps everything in lists, for tests."""

    def __init__(self) -> None:
        self.recorded: dict[int, dict[str, float]] = {}
        self.shown: list[tuple[int, str, int]] = []
        self.kept: list[Path] = []
        self.status: str | None = None

    def params(self, values: Mapping[str, str]) -> None:
        self.given = dict(values)

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self.recorded[iteration] = {**self.recorded.get(iteration, {}), **values}

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        self.shown.append((iteration, name, len(episodes)))

    def artifact(self, path: Path) -> None:
        self.kept.append(path)

    def model(self, folder: Path, name: str) -> None:
        self.kept.append(folder)

    def close(self, status: str) -> list[str]:
        self.status = status
        return []
