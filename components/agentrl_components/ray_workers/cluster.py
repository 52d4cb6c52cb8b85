"""The connection to Ray: one that this process starts, or an existing cluster."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.resources import Reservations

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to the makers of Ray
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about actors without GPUs
}
OBJECT_STORE_BYTES = 256 << 20
"""Shared memory of an embedded Ray, in which weights are handed over. Ray spills to disk above."""
ANSWER_S = 10.0
"""How long an address may take to accept a connection."""


def connect(address: str, reserved: Reservations) -> Callable[[], None]:
    """Connect this process to Ray, and return a function that disconnects it. `address` is
    `compute.ray`. A connection that exists already is used, and stays.

    Raises:
        RunError: Ray is not installed, or nothing answers at the address.
        SpecError: the cluster is too small for what is reserved.
    """
    try:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        import ray
    except ImportError as error:
        raise RunError(
            f"spec.compute.ray: ray is not installed ({error}); install agentrl[ray]"
        ) from error
    if ray.is_initialized():
        reserved.check(ray.cluster_resources())
        return _nothing
    with _signal_handlers_kept():
        if address == "embedded":
            _start(reserved)
        else:
            _join(address)
    try:
        reserved.check(ray.cluster_resources())
    except BaseException:
        _leave()
        raise
    return _leave


def _start(reserved: Reservations) -> None:
    """Start Ray on this machine, without what only a cluster needs."""
    import ray

    ray.init(
        address="local",
        # Actors share the machine's cores as worker processes do: trainers and samplers alternate.
        num_cpus=int(-(-reserved.cpus // 1)),
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        log_to_driver=False,
        logging_level="error",
        _node_ip_address="127.0.0.1",
    )


def _join(address: str) -> None:
    """Connect to an existing cluster. Ray itself would try for minutes if nothing answers."""
    import ray

    check_answers(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(
            f"spec.compute.ray: {address}: Ray refuses the connection: {error}"
        ) from error


def check_answers(address: str) -> None:
    """Raise `RunError` if nothing accepts a connection at the address of a cluster."""
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), ANSWER_S).close()
    except OSError as error:
        raise RunError(
            f"spec.compute.ray: nothing answers at {address} ({error}); check the address, or set "
            "it to embedded"
        ) from error


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Keep the process's signal handlers: Ray replaces that of SIGTERM, which stops a run at the
    next safe point."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave() -> None:
    import ray

    ray.shutdown()


def _nothing() -> None:
    pass
