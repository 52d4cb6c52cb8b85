"""Whether the Ray that this process is connected to is still there.

Ray itself waits for a raylet that died, and a minute after its head has died it ends the process of
the driver. Both are found out before.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from typing import Protocol

from agentrl_components.errors import RunError, WorkersLostError
from agentrl_envs.http.address import host_and_port

HEAD_S = 20.0
"""How long the head may be unreachable by default. Ray ends this process after 60 s."""
ASK_S = 1.0
"""Least time between two questions to the head."""
ACCEPT_S = 2.0


class Node(Protocol):
    """A node that this process started."""

    @property
    def ended(self) -> bool:
        """Whether one of its processes has ended that it cannot be without."""
        ...


class Liveness:
    """Checks the head at an address, and the node by which this process is connected to it."""

    def __init__(
        self,
        address: str,
        node: Node | None,
        head_s: float = HEAD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`node` is the one by which this process is connected, if it has started one. `head_s` is
        how long the head may be unreachable."""
        self._address, self._node, self._head_s, self._clock = address, node, head_s, clock
        self._asked = -math.inf
        self._silence: OSError | None = None
        """Why the head did not answer when it was asked last; None if it did."""
        self._silent_since = 0.0
        """When it was first found not to answer, since it last did."""

    def check(self) -> None:
        """Return if Ray is still there, as far as can be told.

        Raises:
            WorkersLostError: the node of this process has ended. The run connects again.
            RunError: the head does not answer.
        """
        if self._node is not None and self._node.ended:
            raise WorkersLostError("a process of Ray's node on this machine died")
        now = self._clock()
        if now - self._asked >= ASK_S:
            self._asked = now
            self._ask(now)
        if self._silence is not None and self._asked - self._silent_since > self._head_s:
            raise RunError(
                "spec.compute.ray: the head of the Ray cluster does not answer any more at "
                f"{self._address} ({self._silence}); run the same command again when it does: the "
                "run goes on from its last checkpoint"
            ) from self._silence

    def _ask(self, now: float) -> None:
        try:
            socket.create_connection(host_and_port(self._address), ACCEPT_S).close()
            self._silence = None
        except OSError as error:
            if self._silence is None:
                self._silent_since = now
            self._silence = error
