"""Ports for programs that have to be told their number, and ports at which nothing listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PORTS = range(20_000, 32_000)
"""The system chooses others (from 32768), and so does Ray for its workers (10002 to 19999)."""


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody uses, and that are given to no process which does
    not ask for them by their number."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise AssertionError("no free ports")


@contextmanager
def silent_port() -> Iterator[int]:
    """A port of the loopback interface that refuses connections for as long as the block runs."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
