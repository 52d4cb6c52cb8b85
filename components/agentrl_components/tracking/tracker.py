"""Interface of experiment trackers. No method raises or waits for a server, except `close`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from agentrl_components.trajectory.record import Trajectory


class Tracker(Protocol):
    """Records params, metrics by iteration, artifacts, episodes and models."""

    def params(self, values: Mapping[str, str]) -> None:
        """Record the flattened manifest."""
        ...

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        """Record metrics of one iteration. A value that is already recorded is not changed."""
        ...

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        """Record episodes as traces with one span per turn."""
        ...

    def artifact(self, path: Path) -> None:
        """Upload a file."""
        ...

    def model(self, folder: Path, name: str, description: str, metadata: Mapping[str, Any]) -> None:
        """Register the model in `folder` (Hugging Face transformers layout) under `name`, with a
        description in Markdown and, as metadata, what is needed to let it act."""
        ...

    def describe(self, text: str) -> None:
        """Set the description of the run, in Markdown."""
        ...

    def close(self, status: str) -> list[str]:
        """Send what is queued, within a deadline.

        `status` is FINISHED, FAILED or KILLED, or RUNNING if another process continues the run.
        Returns one line for each thing that could not be recorded."""
        ...


class SilentTracker:
    """Records nothing: for runs without a tracker and for processes whose partner records."""

    def params(self, values: Mapping[str, str]) -> None:
        pass

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        pass

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        pass

    def artifact(self, path: Path) -> None:
        pass

    def model(self, folder: Path, name: str, description: str, metadata: Mapping[str, Any]) -> None:
        pass

    def describe(self, text: str) -> None:
        pass

    def close(self, status: str) -> list[str]:
        del status
        return []


class MemoryTracker:
    """Keeps everything in memory, for tests."""

    def __init__(self) -> None:
        self.recorded: dict[int, dict[str, float]] = {}
        self.shown: list[tuple[int, str, int]] = []
        self.kept: list[Path] = []
        self.status: str | None = None
        self.description = ""

    def params(self, values: Mapping[str, str]) -> None:
        self.given = dict(values)

    def metrics(self, iteration: int, values: Mapping[str, float]) -> None:
        self.recorded[iteration] = {**self.recorded.get(iteration, {}), **values}

    def episodes(self, iteration: int, name: str, episodes: Sequence[Trajectory]) -> None:
        self.shown.append((iteration, name, len(episodes)))

    def artifact(self, path: Path) -> None:
        self.kept.append(path)

    def model(self, folder: Path, name: str, description: str, metadata: Mapping[str, Any]) -> None:
        self.kept.append(folder)

    def describe(self, text: str) -> None:
        self.description = text

    def close(self, status: str) -> list[str]:
        self.status = status
        return []
