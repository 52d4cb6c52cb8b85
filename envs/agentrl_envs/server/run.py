"""Serving: an application on a port, for a process of its own or beside other work.

serve(app, host="127.0.0.1", port=8080)          # until SIGTERM or Ctrl-C

with running(app) as url:                        # in a thread, on a free port
    ...
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

DRAIN_S = 10
"""Seconds that calls under way are given to end once the server is told to stop."""


BACKLOG = 2048


class ServingError(ValueError):
    """The server cannot be started so. Field, reason, fix."""


def check_exposure(host: str, *, has_token: bool) -> None:
    """Raises `ServingError` where a server would be open to a network without a token."""
    if not has_token and not is_loopback(host):
        raise ServingError(
            f"--host: {host} can be reached from other machines and no token is set; "
            "give a token, or bind 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A listening socket; port 0: the system chooses. Raises `ServingError` when it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio turns Nagle's delay off only where it is.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise ServingError(
            f"--port: cannot listen on {host}:{port} ({error.strerror}); choose another port"
        ) from None
    return bound


def serve(app: Starlette, bound: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then let calls under way end."""
    uvicorn.Server(_config(app)).run(sockets=[bound])


@contextmanager
def running(app: Starlette, *, start_s: float = 30.0) -> Iterator[str]:
    """The application in a thread, on a loopback port that the system chooses. Yields its URL.

    Raises `TimeoutError` when it does not start in `start_s` seconds."""
    bound = listening("127.0.0.1", 0)
    server = uvicorn.Server(_config(app))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [bound]}, name="server", daemon=True
    )
    thread.start()
    try:
        deadline = time.monotonic() + start_s
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise TimeoutError(f"the server did not start in {start_s:g} s")
            time.sleep(0.005)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=DRAIN_S,
        timeout_keep_alive=75,
    )
