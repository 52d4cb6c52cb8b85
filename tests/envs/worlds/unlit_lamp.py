"""Tasks that need a program, in a module that worker processes can import too."""

import subprocess

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import OptionError

BROKEN = "corridor: the lamp does not start; install a lamp"


class Lamp(CorridorTasks):
    """Needs a program that starts at an attempt, counted from 1; None: never."""

    def __init__(self, starts_at: int | None) -> None:
        super().__init__()
        self.starts_at = starts_at
        self.attempts = 0

    def start_programs(self) -> None:
        self.attempts += 1
        if self.starts_at is None or self.attempts < self.starts_at:
            raise OptionError(BROKEN)


class FaultyLamp(Lamp):
    """Fails with an exception that is not part of the contract of `start_programs`."""

    def start_programs(self) -> None:
        try:
            super().start_programs()
        except OptionError:
            raise subprocess.TimeoutExpired(["lamp"], 3) from None
