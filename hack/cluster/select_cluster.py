"""Select the cluster of the tests: an external one, a kind cluster, or the local cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from cluster import kind_cluster
from cluster.external_cluster import ExternalCluster
from cluster.kind_cluster import KindCluster
from cluster.local_cluster import LocalCluster
from cluster.settings import ClusterError
from cluster.shell import Shell

VARIABLE = "AGENTRL_CLUSTER"
REASONS = {
    "external": "Using the cluster that KUBECONFIG names.",
    "kind": "KUBECONFIG is not set, and Docker and kind are available: using a kind cluster.",
    "local": "KUBECONFIG is not set, and Docker with kind is not available: using the local "
    "cluster.",
}


class Cluster(Protocol):
    """One kind of cluster. Every method may raise ClusterError."""

    @property
    def name(self) -> str: ...

    @property
    def kubeconfig(self) -> str: ...

    def up(self) -> None:
        """Start the cluster, or check that an external one has what the tests need."""
        ...

    def images(self) -> None:
        """Build the AgentRL images and load them into the cluster."""
        ...

    def down(self) -> None:
        """Stop the cluster, unless it is an external one."""
        ...

    def values(self) -> dict[str, str]:
        """Values with which the tests install the AgentRL chart."""
        ...


def select(shell: Shell, environment: Mapping[str, str]) -> Cluster:
    """Select by AGENTRL_CLUSTER, else KUBECONFIG, else whether kind is available.

    Raises ClusterError if AGENTRL_CLUSTER names a kind of cluster that does not exist or that
    lacks its KUBECONFIG.
    """
    local, kubeconfig = LocalCluster(shell), environment.get("KUBECONFIG", "")
    requested = environment.get(VARIABLE)
    if requested is None:
        if kubeconfig and Path(kubeconfig).absolute() != Path(local.kubeconfig):
            requested = "external"
        else:
            requested = "kind" if kind_cluster.is_available(shell) else "local"
    if requested == "external" and not kubeconfig:
        raise ClusterError(f"{VARIABLE}=external: KUBECONFIG is not set")
    known: dict[str, Cluster] = {
        "external": ExternalCluster(shell, environment),
        "kind": KindCluster(shell),
        "local": local,
    }
    if requested not in known:
        raise ClusterError(f"{VARIABLE}: {requested!r} is not one of {', '.join(known)}")
    return known[requested]


def description(cluster: Cluster) -> str:
    """How the tests reach the cluster, as JSON."""
    facts = {"name": cluster.name, "kubeconfig": cluster.kubeconfig, "values": cluster.values()}
    return json.dumps(facts, indent=1)


def main(command: str, shell: Shell, environment: Mapping[str, str]) -> int:
    """Run `up`, `images`, `where` or `down` on the selected cluster. Returns the exit status."""
    try:
        cluster = select(shell, environment)
        match command:
            case "where":
                print(description(cluster))
            case "up":
                shell.message(REASONS[cluster.name])
                cluster.up()
            case "images":
                cluster.images()
            case "down":
                cluster.down()
            case _:
                raise ClusterError(f"unknown command {command!r}")
    except ClusterError as error:
        shell.message(f"cluster: {error}")
        return 1
    return 0
