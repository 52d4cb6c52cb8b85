"""The connection to Ray: one that this process starts, or an existing cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.calls.results import checking
from agentrl_components.ray_workers.hand_over.buckets import OBJECT_STORE_BYTES
from agentrl_components.ray_workers.membership import wait_for_nodes
from agentrl_components.ray_workers.nodes.address import (
    ANSWER_S,
    address_towards,
    check_answers,
    check_protocol,
    not_a_head,
)
from agentrl_components.ray_workers.nodes.driver_node import DriverNode
from agentrl_components.ray_workers.nodes.embedded import (
    EmbeddedRay,
    restrict_access,
    set_waits,
)
from agentrl_components.ray_workers.nodes.liveness import Liveness
from agentrl_components.ray_workers.resources import Reservations
from agentrl_envs.http.address import host_and_port
from agentrl_envs.needs import install_extras

_UNIMPLEMENTED = 12
"""The status of a gRPC server that has not the method that was called."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no reports to the makers of Ray
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about actors without GPUs
}


def connect(
    address: str,
    reserved: Reservations,
    *,
    trains: bool = True,
    note: Callable[[str], None] = lambda _: None,
) -> Callable[[], None]:
    """Connect this process to Ray, and return a function that disconnects it. `address` is
    `compute.ray`. A connection that exists already is used, and stays. `trains` is false for an
    evaluation, which has no trainers. `note` is told which nodes are waited for.

    Raises:
        RunError: Ray is not installed, nothing answers at the address, or a node that the cluster
            has lost is not replaced.
        SpecError: the cluster is too small for what is reserved.
    """
    try:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        set_waits()
        if address == "embedded":
            restrict_access()
        import ray
    except ImportError as error:
        raise RunError(
            f"spec.compute.ray: ray is not installed ({error}); {install_extras('ray')}"
        ) from error
    if ray.is_initialized():
        reserved.check(ray.cluster_resources())
        return _nothing
    with ExitStack() as connected:
        with _signal_handlers_kept():
            if address == "embedded":
                _start(reserved, connected)
            else:
                _join(own_cluster() if address == "cluster" else address, connected)
        # For minutes, in which a signal stops the run.
        wait_for_nodes(reserved, trains=trains, note=note)
        return connected.pop_all().close


def own_cluster() -> str:
    """The address of the Ray cluster that the operator keeps for this run.

    Raises:
        RunError: this process is not a stage that the operator started.
    """
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        raise RunError(
            "spec.compute.ray: is cluster, but RAY_ADDRESS is not set: the operator creates a Ray "
            "cluster for runs on Kubernetes only; set the field to embedded, or apply the manifest"
        )
    return address


def _start(reserved: Reservations, connected: ExitStack) -> None:
    """Start Ray on this machine."""
    # Actors share the machine's cores as worker processes do: trainers and samplers alternate.
    embedded = EmbeddedRay(int(-(-reserved.cpus // 1)), OBJECT_STORE_BYTES)
    connected.callback(embedded.close)
    connected.enter_context(checking(Liveness(embedded.address, embedded).check))


def _join(address: str, connected: ExitStack) -> None:
    """Connect to an existing cluster, by a node of it on this machine. Ray itself would try for
    minutes if nothing answers. Without a node here, start one for the time of the connection."""
    import ray

    check_answers(address)
    check_protocol(address)
    node = None
    if not _has_node(address):
        node = DriverNode(*host_and_port(address), OBJECT_STORE_BYTES)
        connected.callback(node.close)
    options = {} if node is None else {"_temp_dir": node.folder}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(
            f"spec.compute.ray: {address}: Ray refuses the connection: {error}"
        ) from error
    connected.callback(ray.shutdown)
    connected.enter_context(checking(Liveness(address, node).check))


def _has_node(address: str) -> bool:
    """Whether a node of the cluster runs on this machine. Raises `RunError` if the head is not
    that of a cluster."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # a class of C++
    from ray.exceptions import RayError, RpcError

    host, port = host_and_port(address)
    own = address_towards(host, port)
    try:
        nodes = GcsClient(address=address).get_all_node_info(timeout=ANSWER_S).values()
    except RpcError as error:
        if error.rpc_code == _UNIMPLEMENTED:
            raise not_a_head(address) from error
        return False
    except (RayError, RuntimeError, OSError, ValueError):
        return False  # joining it fails, too, and says why
    return any(one.node_manager_address == own and one.state == 0 for one in nodes)


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


def _nothing() -> None:
    pass
