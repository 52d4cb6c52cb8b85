"""How the commands of select_cluster.py run other programs; tests record them instead."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Protocol

from cluster import command
from cluster.settings import ClusterError


class Shell(Protocol):
    """Runs programs. `output` and `run` raise ClusterError if one is missing, fails or is late."""

    def output(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        """Run a program quietly and return its standard output."""
        ...

    def run(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        """Print the command line and run the program with its output on the terminal."""
        ...

    def message(self, text: str) -> None:
        """Print a line for the user."""
        ...


class Terminal:
    """Runs the programs of this machine."""

    def output(self, *argv: str, seconds: float = 30, env: Mapping[str, str] | None = None) -> str:
        return command.run(*argv, seconds=seconds, env=env)

    def run(self, *argv: str, seconds: float = 60, env: Mapping[str, str] | None = None) -> None:
        shown = " ".join(argv)
        print(f"+ {shown}", flush=True)
        try:
            done = subprocess.run(argv, timeout=seconds, env=os.environ | (env or {}), check=False)
        except FileNotFoundError as error:
            raise ClusterError(f"program {argv[0]!r} is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise ClusterError(f"`{shown}` took longer than {seconds:.0f} s") from error
        if done.returncode:
            raise ClusterError(f"`{shown}` failed with {done.returncode}; its output is above")

    def message(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
