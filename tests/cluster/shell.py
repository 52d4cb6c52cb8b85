"""How other programs are run: for real, or only noted, for the tests of what would be run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import command
from place import ClusterError


class Shell(Protocol):
    """Runs programs. Both raise `ClusterError` where one is not there, fails, or takes too long."""

    def ask(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        """What a program says."""
        ...

    def do(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        """Let a program work, before the eyes of whoever called."""
        ...

    def tell(self, text: str) -> None:
        """A line for whoever called."""
        ...


class Terminal:
    """The machine's own."""

    def ask(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        return command.run(*argv, seconds=seconds, env=env)

    def do(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        shown = " ".join(argv)
        print(f"+ {shown}", flush=True)
        try:
            done = subprocess.run(argv, timeout=seconds, env=os.environ | (env or {}), check=False)
        except FileNotFoundError as error:
            raise ClusterError(f"no program {argv[0]!r} here") from error
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"`{shown}` took longer than {seconds:.0f} s") from error
        if done.returncode:
            raise ClusterError(f"`{shown}` failed with {done.returncode}; it says why above")

    def tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@dataclass
class Recorded:
    """Runs nothing: what is asked for in `answers` is answered, anything else asked for fails, and
    what would be done is noted."""

    answers: dict[str, str] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def ask(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        shown = " ".join(argv)
        if shown not in self.answers:
            raise ClusterError(f"`{shown}` failed with 1")
        return self.answers[shown]

    def do(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        self.done.append(" ".join(argv))

    def tell(self, text: str) -> None:
        self.told.append(text)
