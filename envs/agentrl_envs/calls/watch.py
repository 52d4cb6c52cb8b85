"""Notes about calls of environments that take long or never return.

    with WATCH.call("lights", "step", task):
        environment.step(action)

A call that hangs raises no error: its run stands still, and nothing says why. One thread of the
process looks at all calls that are under way, so that it also notices a call that blocks the event
loop.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

from agentrl_envs.env import Task

FIRST_S = 60.0
"""How long a call runs before the first note about it. The next ones follow after twice, four
times, ... as long."""

LOOKS = 12
"""How often the thread looks in `FIRST_S`."""

LOG = logging.getLogger(__name__)


class Call:
    """One call of an environment, which is watched from `begin` to `end`."""

    __slots__ = ("_name", "_task", "_watch", "began", "environment")

    def __init__(
        self, watch: CallWatch, environment: str, name: str, task: Task | None = None
    ) -> None:
        self._watch = watch
        self._name = name
        self._task = task
        self.environment = environment
        self.began: float | None = None
        """When it began, by the clock of its watch. None: it has not."""

    def __str__(self) -> str:
        return self._name if self._task is None else f"{self._name} of task {self._task.id}"

    def begin(self) -> None:
        self._watch.begin(self)

    def end(self) -> None:
        self._watch.end(self)

    def __enter__(self) -> None:
        self._watch.begin(self)

    def __exit__(self, *_: object) -> None:
        self._watch.end(self)


class CallWatch:
    """Reports calls that have been running for long: one line for each environment at a time, about
    its oldest call."""

    def __init__(
        self,
        report: Callable[[str], None] = LOG.warning,
        *,
        first_s: float = FIRST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` is called in the thread of the watch, which starts with the first call."""
        self._report = report
        self.first_s = first_s
        self.clock = clock
        self._under_way: dict[int, Call] = {}
        """By `id`."""
        self._quiet_until: dict[str, float] = {}
        """When the next line may follow, for the environments about which there was one."""
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, environment: str, name: str, task: Task | None = None) -> Call:
        """A call that has not begun. `name` is what notes call it."""
        return Call(self, environment, name, task)

    def begin(self, call: Call) -> None:
        """Watch a call from now on."""
        call.began = self.clock()
        self._under_way[id(call)] = call
        if self._thread is None:
            self._start()

    def end(self, call: Call) -> None:
        """Watch a call no longer. Does nothing for one that has not begun."""
        self._under_way.pop(id(call), None)

    def look(self) -> None:
        """Report the calls that are due."""
        now = self.clock()
        slow: dict[str, list[tuple[float, Call]]] = {}
        for call in self._under_way.copy().values():
            if call.began is not None and (age := now - call.began) >= self.first_s:
                slow.setdefault(call.environment, []).append((age, call))
        self._quiet_until = {name: at for name, at in self._quiet_until.items() if name in slow}
        for environment, calls in slow.items():
            if now >= self._quiet_until.get(environment, now):
                age, oldest = max(calls, key=lambda one: one[0])
                self._quiet_until[environment] = now + age
                self._report(self._line(oldest, age, len(calls) - 1))

    def forget(self) -> None:
        """Begin anew in a process that was forked: it has neither the thread nor the calls."""
        self._under_way = {}
        self._quiet_until = {}
        self._starting = threading.Lock()
        self._thread = None

    def _line(self, call: Call, age: float, others: int) -> str:
        also = ""
        if others:
            calls = "another call" if others == 1 else f"{others} other calls"
            also = f", {calls} for {_duration(self.first_s)} or more"
        return f"environment {call.environment}: {call} has been running for {_duration(age)}{also}"

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="call watch", daemon=True)
                thread.start()
                self._thread = thread

    def _work(self) -> None:
        while True:
            time.sleep(self.first_s / LOOKS)
            self.look()


def _duration(seconds: float) -> str:
    """75 as `75 s`, 250 as `4 min`."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


WATCH = CallWatch()
"""The watch of this process."""
os.register_at_fork(after_in_child=WATCH.forget)
