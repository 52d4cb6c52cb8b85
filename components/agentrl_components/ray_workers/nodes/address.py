"""Addresses of Ray clusters."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from agentrl_components.errors import RunError
from agentrl_envs.http.address import address_of, host_and_port

ANSWER_S = 10.0
"""How long an address may take to accept a connection."""
FRAME_S = 30.0
"""How long the head of a cluster, which may be busy, may take for its first frame."""
_SETTINGS = b"\x04"
_HEADER_BYTES = 9
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0" + _SETTINGS + bytes(5)
"""What a client sends first: the magic string and an empty SETTINGS frame (RFC 9113, section 3.4).
The server answers with a SETTINGS frame, whose header has its type in the fourth byte."""


class ReservedPort:
    """A free port of this machine, which the system gives to nobody else until it is released. A
    program that is told its number and sets SO_REUSEADDR can listen on it meanwhile."""

    def __init__(self, host: str) -> None:
        """`host`: an address of this machine."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        # Two sockets that set it can have one port as long as not both listen.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, 0))
        self.address = address_of(host, self._socket.getsockname()[1])

    def release(self) -> None:
        """Let the system give the port to others, once nobody listens on it."""
        self._socket.close()


def check_answers(address: str) -> None:
    """Raise `RunError` if nothing accepts a connection at the address of a cluster."""
    try:
        socket.create_connection(host_and_port(address), ANSWER_S).close()
    except OSError as error:
        raise RunError(
            f"spec.compute.ray: nothing answers at {address} ({error}); check the address, or set "
            "it to embedded"
        ) from error


def check_protocol(address: str, answer_s: float = FRAME_S) -> None:
    """Raise `RunError` if what accepts connections at an address does not speak HTTP/2, as the head
    of a Ray cluster does. It has `answer_s` seconds for its first frame. Clusters with TLS are not
    checked."""
    if os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    frame = b""
    with suppress(OSError), socket.create_connection(host_and_port(address), answer_s) as asking:
        asking.sendall(_PREFACE)
        while len(frame) < _HEADER_BYTES and (more := asking.recv(_HEADER_BYTES - len(frame))):
            frame += more
    if frame[3:4] != _SETTINGS:
        raise not_a_head(address)


def not_a_head(address: str) -> RunError:
    """The error of an address at which something else than Ray's head answers."""
    return RunError(
        f"spec.compute.ray: what answers at {address} is not the head of a Ray cluster; use the "
        "port of `ray start --head` (6379 by default), not that of Ray's dashboard (8265) or of "
        "Ray Client (10001)"
    )


def address_towards(host: str, port: int) -> str:
    """The address of this machine on the network of `host`. Sends nothing."""
    family, kind, _, _, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(remote)
        return str(probe.getsockname()[0])
