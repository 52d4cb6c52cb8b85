"""Corridors whose calls last until a test lets them go, or for ever."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks


class Gated(CorridorTasks):
    """The action `wait` waits until the gate is opened, and so does every reset while `shut`."""

    def __init__(self, *, shut: bool = False) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waits = threading.Event()
        """Somebody does."""
        self.shut = shut
        self.closed = 0
        """Sessions."""

    def environment(self):
        tasks = self

        class Waiting(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                if tasks.shut:
                    tasks.gate.wait()
                return super().reset(task)

            def step(self, action: str) -> Step:
                if action == "wait":
                    tasks.waits.set()
                    tasks.gate.wait()
                return super().step(action)

            def close(self) -> None:
                tasks.closed += 1

        return Waiting()

    @contextmanager
    def opened_at_last(self) -> Iterator[None]:
        """Nothing waits at the end, whatever came before."""
        try:
            yield
        finally:
            self.gate.set()


class Hanging(CorridorTasks):
    """The action `hang` makes a file to say so, and never comes back."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def environment(self):
        file = self.file

        class Endless(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if action == "hang":
                    file.touch()
                    threading.Event().wait()
                return super().step(action)

        return Endless()
