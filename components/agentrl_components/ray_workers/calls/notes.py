"""Warnings that environments log in an actor, for the driver."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TextIO

from agentrl_envs.output.printable import CleanFormatter

MOST = 20
"""Notes that are kept until somebody takes them. Later ones are dropped."""


class NoteHandler(logging.StreamHandler[TextIO]):
    """Keeps warnings, and writes them to the actor's own log."""

    def __init__(self) -> None:
        super().__init__()
        self.setLevel(logging.WARNING)
        self.setFormatter(CleanFormatter())
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        if len(self._lines) < MOST:
            self._lines.append(self.format(record))

    def take(self) -> tuple[str, ...]:
        """The warnings since the last call."""
        with self.lock or nullcontext():  # as `emit` is called
            taken, self._lines = tuple(self._lines), []
        return taken
