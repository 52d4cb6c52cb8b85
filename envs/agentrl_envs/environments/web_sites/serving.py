"""Serve the sites on loopback.

with running_sites(seed=0) as sites:
    sites["shopping"]  # http://127.0.0.1:41234/shopping
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import uvicorn

from agentrl_envs.environments.web_sites.accounts import SITES
from agentrl_envs.environments.web_sites.app import create_app
from agentrl_envs.environments.web_sites.sessions import CAPACITY

HOST = "127.0.0.1"
"""The sites have no protection and are served to this machine only."""

START_S = 30.0
"""Seconds within which the server must start."""


def site_urls(port: int) -> dict[str, str]:
    """Base URL of each site."""
    return {site: f"http://{HOST}:{port}/{site}" for site in SITES}


def listen(port: int) -> socket.socket:
    """Listen on a loopback port; 0: a free one. Raises `OSError` if it is in use."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((HOST, port))
        bound.listen(2048)
    except OSError:
        bound.close()
        raise
    return bound


def serve_sites(bound: socket.socket, seed: int = 0) -> None:
    """Serve until SIGTERM or SIGINT."""
    uvicorn.Server(_config(seed, 1, CAPACITY)).run(sockets=[bound])


@contextmanager
def running_sites(
    seed: int = 0, *, contents: int = 1, capacity: int = CAPACITY
) -> Iterator[Mapping[str, str]]:
    """Serve the contents of `contents` seeds from `seed` on, in a thread on a free port. Yields the
    base URL of each site.

    Raises `TimeoutError` if the server does not start within `START_S` seconds."""
    bound = listen(0)
    server = uvicorn.Server(_config(seed, contents, capacity))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [bound]}, name="sites", daemon=True
    )
    thread.start()
    try:
        deadline = time.monotonic() + START_S
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise TimeoutError(f"the sites did not start in {START_S:g} s")
            time.sleep(0.005)
        yield site_urls(bound.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def _config(seed: int, contents: int, capacity: int) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(seed, contents=contents, capacity=capacity),
        log_level="warning",
        access_log=False,
        ws="none",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
    )
