"""The nodes of a Ray cluster that a run needs: when actors can be started on them.

Ray counts a node as alive for some seconds after it has died (14 s in Ray 2.60), starts actors
there meanwhile, and they die. And a node that died is often replaced, by KubeRay or by a person.
Both are waited for before actors are started, for a limited time.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from agentrl_components.errors import RunError, SpecError
from agentrl_components.ray_workers.calls.opening import RepeatedNotes
from agentrl_components.ray_workers.calls.results import check_ray
from agentrl_components.ray_workers.resources import Reservations
from agentrl_envs.http.address import address_of

NOTICED_S = 60.0
"""How long to wait for Ray to count a node that does not answer as dead."""
REPLACED_S = 300.0
"""How long to wait for a node in place of one that a cluster has lost."""
WORKERS_S = 600.0
"""How long to wait for the nodes of the run's own cluster."""
POLL_S = 1.0
NOTED_S = 10.0
"""How long to wait before people are told."""
ACCEPT_S = 2.0
"""How long a node may take to accept a connection."""
ASKED_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node that is part of a cluster, or was."""

    host: str
    port: int
    """Of its raylet."""
    alive: bool
    """Whether Ray counts it as alive."""
    lost_s: float | None
    """Seconds since Ray found a node dead that had CPUs or GPUs; None for others."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """All that it has, whether or not it is in use."""


class Cluster(Protocol):
    """What is asked about a cluster."""

    def members(self) -> Sequence[Member]:
        """All nodes, dead ones among them."""
        ...

    def resources(self) -> Mapping[str, float]:
        """The sum over all nodes that are counted as alive."""
        ...

    def now(self) -> float:
        """Seconds of a clock."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait. Raises what `check_ray` raises."""
        ...


class ConnectedCluster:
    """The cluster that this process is connected to."""

    def members(self) -> Sequence[Member]:
        import ray
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # a class of C++
        from ray.exceptions import RayError

        address = ray.get_runtime_context().gcs_address
        try:
            nodes = GcsClient(address=address).get_all_node_info(timeout=ACCEPT_S).values()
        except (RayError, RuntimeError, OSError, ValueError):
            return ()  # whether the head has ended is found out by `check_ray`
        return [
            Member(
                host=node.node_manager_address,
                port=node.node_manager_port,
                alive=node.state == 0,
                lost_s=time.time() - node.end_time_ms / 1000
                if node.state != 0 and {"CPU", "GPU"} & set(node.resources_total)
                else None,
                resources=dict(node.resources_total),
            )
            for node in nodes
        ]

    def resources(self) -> Mapping[str, float]:
        import ray

        found: Mapping[str, float] = ray.cluster_resources()
        return found

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        check_ray()
        time.sleep(seconds)


def wait_for_nodes(
    reserved: Reservations,
    cluster: Cluster | None = None,
    *,
    trains: bool = True,
    note: Callable[[str], None] = lambda _: None,
) -> None:
    """Return when actors can be started: no node that Ray counts as alive has died, and there is
    room for what is reserved. `trains` is false for an evaluation, which has no trainers. `note` is
    told what is waited for, after `NOTED_S` and less often later.

    Raises:
        SpecError: the cluster is too small, and has lost no node in the last `REPLACED_S`.
        RunError: a node that was lost was not replaced, or the run's own cluster is not complete.
    """
    cluster = cluster or ConnectedCluster()
    notes = RepeatedNotes(note, NOTED_S, cluster.now)
    _wait_until_noticed(cluster, notes)
    if reserved.own_cluster:
        _wait_for_groups(reserved, cluster, notes)
    else:
        _wait_for_room(reserved, cluster, notes, trains=trains)


def _wait_until_noticed(cluster: Cluster, notes: RepeatedNotes) -> None:
    """Wait until Ray has noticed that nodes which do not answer are dead. A node that does not
    answer this process for other reasons delays it by `NOTICED_S`."""
    deadline = cluster.now() + NOTICED_S
    with ThreadPoolExecutor(ASKED_AT_ONCE) as asking:
        while cluster.now() < deadline:
            alive = [member for member in cluster.members() if member.alive]
            answers = asking.map(_answers, alive)
            silent = [one for one, answered in zip(alive, answers, strict=True) if not answered]
            if not silent:
                return
            notes(partial(_unnoticed, silent))
            cluster.pause(POLL_S)


def _wait_for_groups(reserved: Reservations, cluster: Cluster, notes: RepeatedNotes) -> None:
    """Wait until the run's own cluster has a node for every actor: one whose pod was replaced joins
    soon."""
    deadline = cluster.now() + WORKERS_S
    while missing := reserved.missing(cluster.resources()):
        if cluster.now() > deadline:
            raise RunError(
                f"spec.compute.ray: the Ray cluster of the run has {missing} after "
                f"{WORKERS_S:g} s; status.ray of the run (kubectl describe arl NAME) and the "
                "events of its pods (kubectl describe pod -l agentrl.dev/ray) say why the others "
                "are missing"
            )
        notes(partial(_incomplete, missing))
        cluster.pause(POLL_S)


def _wait_for_room(
    reserved: Reservations, cluster: Cluster, notes: RepeatedNotes, *, trains: bool
) -> None:
    """Wait until a node that was lost is replaced, if the others are too few."""
    deadline = cluster.now() + REPLACED_S
    while True:
        try:
            reserved.check(cluster.resources())
            alive = [one.resources for one in cluster.members() if one.alive]
            return reserved.check_nodes(alive, trains=trains)
        except SpecError as error:
            too_small = error
            if not any(map(_lost_lately, cluster.members())):
                raise
            if cluster.now() > deadline:
                raise RunError(
                    "spec.compute.ray: the Ray cluster has lost a node, and what is left is too "
                    f"small ({too_small}); run the same command again when the node is back: the "
                    "run goes on from its last checkpoint"
                ) from too_small
        notes(partial(_lacking, too_small))
        cluster.pause(POLL_S)


def _unnoticed(silent: Sequence[Member], passed_s: float) -> str:
    """What people are told while `_wait_until_noticed` waits."""
    places = ", ".join(address_of(one.host, one.port) for one in silent)
    return (
        f"waiting for Ray to notice that {places} does not answer ({passed_s:.0f} s so far; for "
        f"{NOTICED_S:.0f} s at most, in case a firewall refuses this process alone)"
    )


def _incomplete(missing: str, passed_s: float) -> str:
    """What people are told while `_wait_for_groups` waits."""
    return f"waiting for the Ray cluster of the run, which has {missing} ({passed_s:.0f} s so far)"


def _lacking(too_small: SpecError, passed_s: float) -> str:
    """What people are told while `_wait_for_room` waits."""
    return f"waiting for a node in place of the lost one ({passed_s:.0f} s so far): {too_small}"


def _lost_lately(member: Member) -> bool:
    return member.lost_s is not None and member.lost_s < REPLACED_S


def _answers(member: Member) -> bool:
    """Whether a node accepts a connection."""
    try:
        socket.create_connection((member.host, member.port), ACCEPT_S).close()
    except OSError:
        return False
    return True
