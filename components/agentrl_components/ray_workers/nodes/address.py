"""Addresses of Ray clusters."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from agentrl_components.errors import RunError

ANSWER_S = 10.0
"""How long an address may take to accept a connection."""


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


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of `compute.ray` where it is an address."""
    parts = urlsplit(f"//{address}")
    return parts.hostname or "", parts.port or 0


def address_of(host: str, port: int) -> str:
    """The address of a host and a port, of which `host_and_port` gives the parts. An address of
    IPv6 is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_answers(address: str) -> None:
    """Raise `RunError` if nothing accepts a connection at the address of a cluster."""
    try:
        socket.create_connection(host_and_port(address), ANSWER_S).close()
    except OSError as error:
        raise RunError(
            f"spec.compute.ray: nothing answers at {address} ({error}); check the address, or set "
            "it to embedded"
        ) from error


def address_towards(host: str, port: int) -> str:
    """The address of this machine on the network of `host`. Sends nothing."""
    family, kind, _, _, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(remote)
        return str(probe.getsockname()[0])
