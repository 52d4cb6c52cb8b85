"""Runs an application on a port, in the foreground or in a thread.

serve(app, bind_socket("127.0.0.1", 8080))  # until SIGTERM or Ctrl-C

with running(app) as url:                   # in a thread, on a free port
    ...
"""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from agentrl_envs.http.listening import listening_socket
from agentrl_envs.server.draining import Draining
from agentrl_envs.server.request_timeout import http_protocol

GRACEFUL_SHUTDOWN_S = 10
"""Seconds that running calls are given to finish when the server shuts down."""

KEEP_ALIVE_S = 75
"""Seconds that an idle connection is kept open."""

HEAD_TIMEOUT_S = 30.0
"""Seconds within which the head of a request must arrive on a connection."""


class ServeError(ValueError):
    """The server cannot be started with these flags. The message names flag, reason and fix."""


def check_exposure(host: str, *, has_token: bool) -> None:
    """Raises `ServeError` if the server would be reachable from a network without a token."""
    if not has_token and not is_loopback(host):
        raise ServeError(
            f"--host: {host} can be reached from other machines and no token is set; "
            "set AGENTRL_ENVS_TOKEN to one (--token-env names another variable), or bind 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind and listen as `listening_socket` does. Raises `ServeError` if the port is in use."""
    try:
        return listening_socket(host, port)
    except OSError as error:
        raise ServeError(
            f"--port: cannot listen on {host}:{port} ({error.strerror}); choose another port"
        ) from None


def serve(app: Starlette, bound: socket.socket, *, websockets: bool = False) -> None:
    """Serve until SIGTERM or SIGINT, then let running calls finish. After SIGTERM, an application
    of `create_app` first drains. `websockets`: the application has routes for them."""
    _DrainingServer(_config(app, HEAD_TIMEOUT_S, websockets), app).run(sockets=[bound])


class _DrainingServer(uvicorn.Server):
    """Goes on serving after the first SIGTERM until the application has drained. Another signal
    ends that at once."""

    def __init__(self, config: uvicorn.Config, app: Starlette) -> None:
        super().__init__(config)
        self._draining: Draining | None = getattr(app.state, "draining", None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._draining is not None and not self._draining.begun:
            self._draining.begin()
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if self._draining is not None and self._draining.over:
            self.should_exit = True
        return await super().on_tick(counter)


@contextmanager
def running(
    app: Starlette,
    *,
    port: int = 0,
    start_s: float = 30.0,
    head_timeout_s: float = HEAD_TIMEOUT_S,
    websockets: bool = False,
) -> Iterator[str]:
    """Run the application in a thread, on a loopback port. Yields its URL. Port 0: a free one.

    Raises `TimeoutError` if it does not start within `start_s` seconds, `ServeError` if the port is
    in use."""
    bound = bind_socket("127.0.0.1", port)
    server = uvicorn.Server(_config(app, head_timeout_s, websockets))
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


def _config(app: Starlette, head_timeout_s: float, websockets: bool) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        http=http_protocol(head_timeout_s),
        ws="websockets-sansio" if websockets else "none",
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
