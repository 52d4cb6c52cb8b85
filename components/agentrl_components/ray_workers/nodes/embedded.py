"""A Ray of this process: its raylet and its head (GCS) are processes that `ray.init` starts."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, suppress
from subprocess import TimeoutExpired
from traceback import walk_tb
from typing import Any

from tenacity import RetryError, Retrying, stop_after_attempt

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.nodes.temporary_folder import temporary_folder

START_S = 60
"""How long each process of Ray may take to start. Ray's own 30 s are too few on a busy machine."""
STARTS = 3
"""How often Ray is started. Its raylet gives up if an agent of its own takes more than 30 s, which
no setting changes."""
WAITS = {
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_agent_register_timeout_ms": str(START_S * 1000),
}
"""Environment variables that set `START_S`; Ray reads them when it is first used."""
HEAD_WAIT = "RAY_gcs_server_port_wait_time_s"
"""The environment variable that sets `START_S` for the head. In a process that joins a cluster it
is also the time for which Ray retries a connection whose token is refused."""
NICENESS = "RAY_worker_niceness"
"""The niceness of actors. With Ray's default of 15 they get 3 % of a core that others use too."""
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""If it is 0 when Ray is imported, Ray's processes bind the loopback interface, as they do on macOS
and Windows. On Linux they bind all interfaces."""
FOLDER = "ray"
"""The name that Ray gives its folder among the temporary files."""
NEEDED = {"raylet", "gcs_server"}
END_S = 30.0
"""How long a process that was killed may take to end."""


def set_waits() -> None:
    """Give the processes that Ray starts from here on `START_S`, unless the user has set a time."""
    for name, value in WAITS.items():
        os.environ.setdefault(name, value)


def restrict_access() -> None:
    """Let only this process, and those that it starts, use the Ray that it starts: Ray asks for a
    token, and binds the loopback interface if it was not imported before. Imports Ray. If the user
    has chosen how Ray authenticates, that stays."""
    with ExitStack() as restored:
        if LOOPBACK not in os.environ:
            os.environ[LOOPBACK] = "0"
            restored.callback(os.environ.pop, LOOPBACK)  # Ray refuses to join nodes with it
        from ray._raylet import Config  # type: ignore[attr-defined]  # a class of C++

    if "RAY_AUTH_MODE" not in os.environ:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        Config.initialize("")  # reads the variables again


class EmbeddedRay:
    """Ray on this machine, without what only a cluster needs. Close it after use."""

    def __init__(self, cpus: int, object_store_bytes: int) -> None:
        """Start it, and connect this process. `object_store_bytes` is the size of the shared memory
        in which weights are handed over.

        Raises:
            RunError: its processes do not come up.
        """
        restrict_access()
        os.environ.setdefault(HEAD_WAIT, str(START_S))
        os.environ.setdefault(NICENESS, "0")
        try:
            started = Retrying(stop=stop_after_attempt(STARTS))(
                _start,
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=object_store_bytes,
                log_to_driver=False,
                logging_level="error",
                _node_ip_address="127.0.0.1",
                _temp_dir=str(temporary_folder(FOLDER) / FOLDER),
            )
        except RetryError as error:
            cause = error.last_attempt.exception()
            reason = " ".join(str(cause).split())[:500]
            raise RunError(
                f"spec.compute.ray: embedded: Ray did not start on this machine ({reason}); it "
                "needs memory, and disk in the temporary folder; on a slow machine give it more "
                "seconds by the environment variables RAY_raylet_start_wait_time_s and "
                f"{HEAD_WAIT}, or set the field to the address of a cluster"
            ) from cause
        self.address: str = started.address_info["gcs_address"]

    def close(self) -> None:
        """Disconnect this process, and end Ray's processes."""
        import ray
        from ray._private.worker import _global_node

        kinds = {} if _global_node is None else _global_node.all_processes
        processes = [one.process for of_kind in kinds.values() for one in of_kind]
        ray.shutdown()  # waits one second for each process that it kills
        for process in processes:
            with suppress(TimeoutExpired):  # it is in a system call that cannot be interrupted
                process.wait(END_S)

    @property
    def ended(self) -> bool:
        """Whether the raylet or the head has ended."""
        from ray._private.worker import _global_node  # Ray itself asks it, in `ray start --block`

        return _global_node is not None and any(
            kind in NEEDED for kind, _ in _global_node.dead_processes()
        )


def _start(**options: Any) -> Any:
    """As `ray.init`. If it fails, the processes that it has started are ended: Ray leaves them."""
    import ray
    from ray._private.node import Node

    try:
        return ray.init(**options)
    except Exception as error:
        for frame, _ in walk_tb(error.__traceback__):
            node = frame.f_locals.get("self")
            if isinstance(node, Node):
                node.kill_all_processes(check_alive=False, wait=True)
        ray.shutdown()  # of a node that came up, and to which the connection failed
        raise
