"""A bounded pool of JVMs, and the worlds that sessions play in.

    with world.turn() as simulator:
        text = simulator.step("look around")

JVMs are started when they are needed and kept: a world that a session gives back is used by the
next one, since loading a task into it costs the same as into a new one. A JVM that has died is left
out and replaced; the sessions in it raise `SessionError`, so that their episodes are lost, not
failed.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from agentrl_envs.errors import CapacityError, SessionError

if TYPE_CHECKING:
    from agentrl_envs.environments.sciworld.jvm import Jvm

SPREAD_WORLDS = 16
"""Worlds in use in each running JVM before another JVM is started, to use another core."""


@dataclass(slots=True, eq=False)
class _Host:
    """One JVM with its worlds."""

    jvm: Jvm
    used: int = 0
    free: list[Any] = field(default_factory=list)
    """Simulators that no session uses."""


class World:
    """A simulator that one session has until `release`."""

    def __init__(self, pool: JvmPool, host: _Host, simulator: Any) -> None:
        self._pool = pool
        self._host = host
        self._simulator = simulator
        self._released = False

    @property
    def alive(self) -> bool:
        return self._host.jvm.alive

    @property
    def jvm_pid(self) -> int:
        return self._host.jvm.pid

    @contextmanager
    def turn(self) -> Iterator[Any]:
        """The simulator, for calls that no other session of its JVM interrupts. Raises
        `SessionError` if the JVM has died or the simulator was given back."""
        with self._host.jvm.calls():
            if self._released:  # another session may have it
                raise SessionError("sciworld: the session was closed")
            yield self._simulator

    def release(self) -> None:
        """Give the simulator back. May be called twice."""
        if not self._released:
            self._released = True
            self._pool.take_back(self._host, self._simulator)


class JvmPool:
    """At most `jvms` JVMs of at most `worlds` worlds each."""

    def __init__(self, *, jvms: int, worlds: int) -> None:
        self._owner = os.getpid()
        self._jvms = jvms
        self._worlds = worlds
        self._hosts: list[_Host] = []
        self._lock = threading.Lock()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the JVMs that run."""
        return tuple(host.jvm.pid for host in self._hosts if host.jvm.alive)

    def lease(self) -> World:
        """A world in the JVM with the fewest. Raises `CapacityError` if all are in use, and
        `SessionError` if Java does not start."""
        with self._lock:
            self._drop_dead_jvms()
            host = min(self._hosts, key=lambda host: host.used, default=None)
            full = host is None or host.used >= min(SPREAD_WORLDS, self._worlds)
            if full and len(self._hosts) < self._jvms:
                # Here, so that tasks and options need neither py4j nor the jar.
                from agentrl_envs.environments.sciworld.jvm import Jvm

                host = _Host(Jvm(self._worlds))
                self._hosts.append(host)
            if host is None or host.used >= self._worlds:
                raise CapacityError(
                    f"sciworld: all {self._jvms * self._worlds} worlds are in use; raise the "
                    "options jvms or worlds, with the memory of the server"
                )
            host.used += 1
            simulator = host.free.pop() if host.free else None
        try:
            return World(self, host, simulator or host.jvm.simulator())
        except SessionError:
            self.take_back(host, None)
            raise

    def take_back(self, host: _Host, simulator: Any) -> None:
        """A session no longer uses its simulator."""
        with self._lock:
            host.used -= 1
            if simulator is not None and host.jvm.alive:
                host.free.append(simulator)

    def _drop_dead_jvms(self) -> None:
        """Forget the JVMs that have died, and close what is left of them."""
        for host in [host for host in self._hosts if not host.jvm.alive]:
            self._hosts.remove(host)
            host.jvm.kill()

    def close(self) -> None:
        """Kill every JVM that this process has started."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            for host in self._hosts:
                host.jvm.kill()
            self._hosts.clear()


def shared_pool(*, jvms: int, worlds: int) -> JvmPool:
    """The pool of this process for these bounds: task sets share their JVMs."""
    return _pool(os.getpid(), jvms, worlds)


@cache
def _pool(pid: int, jvms: int, worlds: int) -> JvmPool:
    """Keyed by the process id: a forked process cannot use its parent's connections."""
    pool = JvmPool(jvms=jvms, worlds=worlds)
    atexit.register(pool.close)
    return pool
