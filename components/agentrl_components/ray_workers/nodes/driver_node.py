"""The Ray node by which a driver joins a cluster that has no node on its machine.

A Ray driver talks to its cluster through a raylet of its own machine. In a pod that is not part of
the cluster there is none, so this process starts one. It has no CPUs and no GPUs: no actor is
placed on it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.nodes.address import address_towards
from agentrl_components.ray_workers.nodes.temporary_folder import temporary_folder
from agentrl_components.storage.scratch import PREFIX, ScratchFolder
from agentrl_envs.http.address import address_of

FOLDER = f"{PREFIX}12345678"
"""A name as long as that of the node's folder."""
STARTED = "Ray runtime started"
"""What `ray start` prints when its processes are up."""
POLL_S = 0.1
START_S = 300.0
"""How long the node may take to start."""
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
            RunError: Ray refuses to join: its version or its token differ; or it has not started
                in `START_S`.
        """
        self._temporary = ScratchFolder(temporary_folder(FOLDER))
        self.folder = str(self._temporary.path)
        # A file and no pipe: a node that dies writes more than a pipe holds, and nobody reads it.
        self._output = self._temporary.path / "output"
        options = {
            "address": address_of(host, port),
            "temp-dir": self.folder,
            "node-ip-address": address_towards(host, port),
            "num-cpus": "0",
            "num-gpus": "0",
            "object-store-memory": str(object_store_bytes),
            "include-log-monitor": "False",
        }
        flags = [f"--{name}={value}" for name, value in options.items()]
        command = [
            sys.executable, "-c", ENDS_WITH_PARENT, "-m", "ray.scripts.scripts", "start",
            "--block", "--disable-usage-stats", *flags,
        ]  # fmt: skip
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                command,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        with ExitStack() as on_error:
            on_error.callback(self.close)
            self._wait(address_of(host, port))
            on_error.pop_all()

    @property
    def ended(self) -> bool:
        """Whether one of the node's processes has ended; Ray then ends the others."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Leave the cluster: end the node's processes."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._temporary.close()

    def _wait(self, address: str) -> None:
        """Return when the node is up."""
        deadline = time.monotonic() + START_S
        while STARTED not in self._output.read_text("utf-8"):
            if time.monotonic() > deadline:
                raise RunError(
                    f"spec.compute.ray: {address}: the node by which this machine joins the "
                    f"cluster has not started in {START_S:g} s; check that the head is healthy "
                    "(`ray status`) and can reach this machine"
                )
            if self.ended:
                reason = _reason(self._output.read_text("utf-8").splitlines())
                raise RunError(
                    f"spec.compute.ray: {address}: Ray refuses to join the cluster: {reason}; use "
                    "the versions of Ray and Python that the cluster has, and its token in "
                    "RAY_AUTH_TOKEN"
                )
            time.sleep(POLL_S)


def _reason(lines: Sequence[str]) -> str:
    """The line of the output that names the error."""
    errors = [line for line in lines if "Error" in line or "mismatch" in line.lower()]
    return (errors or [line for line in lines if line] or ["no reason given"])[-1][:500]
