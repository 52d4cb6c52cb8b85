"""Corridor tasks whose calls block until a test releases them, or for ever."""

import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks


class BlockingTasks(CorridorTasks):
    """The action `wait`, and with `block_resets` every reset, blocks until `gate` is set."""

    def __init__(self, *, block_resets: bool = False) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.waiting = threading.Event()
        """Set when a call blocks."""
        self.block_resets = block_resets
        self.closed = 0
        """Number of closed sessions."""
        self.any_closed = threading.Event()
        """Set when a session was closed."""

    def environment(self):
        tasks = self

        class BlockingEnvironment(CorridorEnvironment):
            def reset(self, task: Task) -> Observation:
                if tasks.block_resets:
                    tasks.waiting.set()
                    tasks.gate.wait()
                return super().reset(task)

            def step(self, action: str) -> Step:
                if action == "wait":
                    tasks.waiting.set()
                    tasks.gate.wait()
                return super().step(action)

            def close(self) -> None:
                tasks.closed += 1
                tasks.any_closed.set()

        return BlockingEnvironment()

    @contextmanager
    def opened_on_exit(self) -> Iterator[None]:
        """Set the gate on exit, so that no thread stays blocked."""
        try:
            yield
        finally:
            self.gate.set()


class PausingTasks(CorridorTasks):
    """The action `pause` takes until somebody has written to the named pipe `pipe`."""

    def __init__(self, pipe: Path) -> None:
        super().__init__()
        self.pipe = pipe

    def environment(self):
        pipe = self.pipe

        class PausingEnvironment(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if action == "pause":
                    pipe.read_bytes()
                return super().step(action)

        return PausingEnvironment()


class WaitingConstruction(CorridorTasks):
    """Its construction takes until somebody has written to the named pipe `pipe`."""

    def __init__(self, pipe: Path) -> None:
        super().__init__()
        pipe.read_bytes()


class EndlessTasks(CorridorTasks):
    """Its construction hangs in other processes than the first."""

    def __init__(self) -> None:
        if multiprocessing.parent_process() is not None:
            threading.Event().wait()
        super().__init__()


class HangingTasks(CorridorTasks):
    """The action `hang` creates `file` and never returns."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def environment(self):
        file = self.file

        class HangingEnvironment(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if action == "hang":
                    file.touch()
                    threading.Event().wait()
                return super().step(action)

        return HangingEnvironment()


class NappingTasks(CorridorTasks):
    """The action `nap` takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def environment(self):
        seconds = self.seconds

        class NappingEnvironment(CorridorEnvironment):
            def step(self, action: str) -> Step:
                if action == "nap":
                    time.sleep(seconds)
                return super().step(action)

        return NappingEnvironment()
