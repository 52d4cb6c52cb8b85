"""A shell that runs nothing, for tests of what would be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.settings import ClusterError


@dataclass
class RecordedShell:
    """Returns the outputs in `answers` and fails for any other; records what would be run."""

    answers: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def output(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        shown = " ".join(argv)
        if shown not in self.answers:
            raise ClusterError(f"`{shown}` failed with 1")
        return self.answers[shown]

    def run(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        self.done.append(" ".join(argv))

    def message(self, text: str) -> None:
        self.messages.append(text)
