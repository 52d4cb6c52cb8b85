"""A shell that records commands and does not run them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cluster.settings import ClusterError


@dataclass
class RecordedShell:
    """Records commands. `output` returns the text in `answers`, or raises ClusterError."""

    answers: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def output(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        command = " ".join(argv)
        if command not in self.answers:
            raise ClusterError(f"`{command}` failed with 1")
        return self.answers[command]

    def run(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        self.commands.append(" ".join(argv))

    def message(self, text: str) -> None:
        self.messages.append(text)
