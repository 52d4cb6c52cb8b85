"""The Ray node by which a driver joins a cluster that has no node on its machine.

A Ray driver talks to its cluster through a raylet of its own machine. In a pod that is not part of
the cluster there is none, so this process starts one. It has no CPUs and no GPUs: no actor is
placed on it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from agentrl_components.errors import RunError

STARTED = "Ray runtime started"
"""What `ray start` prints when its processes are up."""
STOP_S = 20.0
"""How long the node's processes may take to end."""
ENDS_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGTERM);"
    " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""A program that runs its arguments with Python, and gets SIGTERM when the parent process dies
(PR_SET_PDEATHSIG): a driver that is killed leaves no raylet behind."""


class DriverNode:
    """A running node. `folder` identifies it in `ray.init(_temp_dir=...)`."""

    def __init__(self, host: str, port: int, object_store_bytes: int) -> None:
        """Join the cluster whose GCS is at `host` and `port`.

        Raises:
            RunError: Ray refuses to join: its version or its token differ.
        """
        self._temporary = TemporaryDirectory(prefix="agentrl-ray-", ignore_cleanup_errors=True)
        self.folder = self._temporary.name
        options = {
            "address": f"{host}:{port}",
            "temp-dir": self.folder,
            "node-ip-address": address_towards(host, port),
            "num-cpus": "0",
            "num-gpus": "0",
            "object-store-memory": str(object_store_bytes),
            "include-log-monitor": "False",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        self._process = subprocess.Popen(
            [
                sys.executable, "-c", ENDS_WITH_PARENT, "-m", "ray.scripts.scripts", "start",
                "--block", "--disable-usage-stats", *flags,
            ],
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        with ExitStack() as on_error:
            on_error.callback(self.close)
            self._wait(f"{host}:{port}")
            on_error.pop_all()

    def close(self) -> None:
        """Leave the cluster: end the node's processes."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._temporary.cleanup()

    def _wait(self, address: str) -> None:
        """Return when the node is up."""
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            if STARTED in line:
                return
            lines.append(line.strip())
        raise RunError(
            f"spec.compute.ray: {address}: Ray refuses to join the cluster: {_reason(lines)}; use "
            "the versions of Ray and Python that the cluster has, and its token in RAY_AUTH_TOKEN"
        )


def address_towards(host: str, port: int) -> str:
    """The address of this machine on the network of `host`. Sends nothing."""
    family, kind, _, _, remote = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(remote)
        return str(probe.getsockname()[0])


def _reason(lines: Sequence[str]) -> str:
    """The line of the output that names the error."""
    errors = [line for line in lines if "Error" in line or "mismatch" in line.lower()]
    return (errors or [line for line in lines if line] or ["no reason given"])[-1][:500]
