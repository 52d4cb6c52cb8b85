"""The process group of the ranks, and the address at which they meet."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Final

import torch.distributed as dist

from agentrl_envs.http.address import address_of, host_and_port
from agentrl_envs.http.listening import listening_socket

TIMEOUT = timedelta(minutes=45)
"""How long a rank waits for the others in one collective operation. In a hand-over they may wait
for a sampler, which is found to be silent first (`ray_workers.calls.silence.SILENT_S`)."""
_GLOO_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


class MeetingPoint:
    """Listens on an address of this machine, at which the ranks of a process group find each other,
    for as long as the group lives.

    It chooses its port while it binds it. A port that is chosen first and bound later can be given
    to another process in between.
    """

    def __init__(self, host: str) -> None:
        """`host`: an address of this machine; other addresses of it do not accept connections."""
        bound = listening_socket(host, 0)
        port = bound.getsockname()[1]
        self.address = address_of(host, port)
        self._server = dist.TCPStore(  # type: ignore[attr-defined]
            host,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=TIMEOUT,
            master_listen_fd=bound.detach(),
        )


def join_group(backend: str, address: str, rank: int, ranks: int) -> None:
    """Join the process group of `ranks` ranks that meet at the address of a `MeetingPoint`. Returns
    when all have joined. Between ranks of one machine that meet on the loopback interface, Gloo
    uses no other."""
    host, port = host_and_port(address)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, is_master=False, wait_for_workers=False, timeout=TIMEOUT
    )
    with _gloo_on_loopback(host):
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=TIMEOUT)


@contextmanager
def _gloo_on_loopback(host: str) -> Iterator[None]:
    """If `host` is a loopback address, Gloo listens on it alone in the block, unless the user names
    an interface. Otherwise it takes the address that this machine's name has."""
    if _GLOO_INTERFACE in os.environ or not ipaddress.ip_address(host).is_loopback:
        yield
        return
    os.environ[_GLOO_INTERFACE] = _LOOPBACK
    try:
        yield
    finally:
        del os.environ[_GLOO_INTERFACE]
