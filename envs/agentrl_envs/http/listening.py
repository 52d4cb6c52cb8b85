"""Sockets on which servers listen."""

from __future__ import annotations

import errno
import socket
from typing import Protocol

ALL_ADDRESSES = "::"
"""Host of servers in pods: their addresses may be of either family."""
_BACKLOG = 2048
"""Connections that wait to be accepted."""
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Errors of a machine without IPv6."""


class MakeSocket(Protocol):
    """`socket.socket`."""

    def __call__(self, family: int, kind: int, protocol: int, /) -> socket.socket: ...


def listening_socket(
    host: str, port: int, make_socket: MakeSocket = socket.socket
) -> socket.socket:
    """A socket that listens on an address; port 0: the system chooses.

    `::` stands for all addresses of IPv6 and IPv4, and of IPv4 alone on a machine without IPv6.

    Raises:
        OSError: The address is not one of this machine, or the port is in use.
    """
    if host != ALL_ADDRESSES:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return _listening(make_socket, family, host, port)
    try:
        return _listening(make_socket, socket.AF_INET6, host, port)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return _listening(make_socket, socket.AF_INET, "0.0.0.0", port)


def _listening(
    make_socket: MakeSocket, family: socket.AddressFamily, host: str, port: int
) -> socket.socket:
    # asyncio disables Nagle's algorithm only for sockets whose protocol is named.
    bound = make_socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == ALL_ADDRESSES:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
