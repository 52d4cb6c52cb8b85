"""Which cluster the tests are run on, in this order: the one that KUBECONFIG names; one of kind's,
where Docker runs; else one of our own.

    python tests/cluster/choice.py up        start it, or look whether what is needed is there
    python tests/cluster/choice.py images    build our images and hand them to it
    python tests/cluster/choice.py where     how it is reached, as JSON
    python tests/cluster/choice.py down      stop it, where it was started here

`AGENTRL_CLUSTER=given|kind|own` decides otherwise.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import kind
import place
from given import Given
from kind import Kind
from place import HERE, ClusterError
from shell import Shell, Terminal

CHOICE = "AGENTRL_CLUSTER"
UP_S = 7200.0
"""With the first build of everything; every step of it has a bound of its own."""


class Cluster(Protocol):
    """One of the three."""

    @property
    def name(self) -> str: ...

    @property
    def kubeconfig(self) -> str: ...

    def up(self) -> None:
        """Start it, where it is ours to start. Raises `ClusterError`."""
        ...

    def images(self) -> None:
        """Build our images and hand them to it."""
        ...

    def down(self) -> None:
        """Stop it, where it is ours to stop."""
        ...

    def values(self) -> dict[str, str]:
        """Of the chart."""
        ...


@dataclass(frozen=True, slots=True)
class Own:
    """The cluster of `cluster.py`: needs neither Docker nor a registry, but root and Go."""

    shell: Shell

    name = "own"
    kubeconfig = str(place.KUBECONFIG)

    def up(self) -> None:
        self.shell.do(sys.executable, str(HERE / "cluster.py"), "up", seconds=UP_S)

    def images(self) -> None:
        self.shell.do(sys.executable, str(HERE / "images.py"), seconds=UP_S)

    def down(self) -> None:
        self.shell.do(sys.executable, str(HERE / "cluster.py"), "down", seconds=300)

    def values(self) -> dict[str, str]:
        values = {
            "kfp.uiUrl": "http://127.0.0.1:3000",
            "storage.url": "s3://agentrl",
            "storage.endpoint": "http://minio-service.kubeflow.svc.cluster.local:9000",
            "storage.existingSecret": "agentrl-storage",
            "tracking.uri": "http://mlflow.kubeflow.svc.cluster.local:5000",
            "tracking.uiUrl": f"http://{place.IP}:5000",
            "pollSeconds": "1",
        }
        for value, target in (
            ("operator", "operator"),
            ("stage", "stage"),
            ("environment", "envs"),
        ):
            values[f"images.{value}.repository"] = f"docker.io/local/agentrl-{target}"
            values[f"images.{value}.tag"] = "dev"
        return values


def chosen(shell: Shell, environment: Mapping[str, str]) -> Cluster:
    """The cluster to use. Raises `ClusterError` where another is asked for than can be had."""
    own, given = Own(shell), environment.get("KUBECONFIG", "")
    asked = environment.get(CHOICE)
    if asked is None:
        if given and Path(given).absolute() != Path(own.kubeconfig):
            asked = "given"
        else:
            asked = "kind" if kind.is_here(shell) else "own"
    if asked == "given" and not given:
        raise ClusterError(f"{CHOICE}=given: KUBECONFIG is not set")
    known: dict[str, Cluster] = {
        "given": Given(shell, environment), "kind": Kind(shell), "own": own,
    }  # fmt: skip
    if asked not in known:
        raise ClusterError(f"{CHOICE}: {asked!r} is none of {', '.join(known)}")
    return known[asked]


def where(cluster: Cluster) -> str:
    """What the tests need to know of it."""
    told = {"name": cluster.name, "kubeconfig": cluster.kubeconfig, "values": cluster.values()}
    return json.dumps(told, indent=1)


WHY = {
    "given": "The cluster that KUBECONFIG names.",
    "kind": "No KUBECONFIG is given, and Docker and kind are here: a cluster of kind's.",
    "own": "No KUBECONFIG is given, and no Docker with kind is here: a cluster of our own.",
}


def main(words: list[str], shell: Shell, environment: Mapping[str, str]) -> int:
    if words not in (["up"], ["images"], ["where"], ["down"]):
        shell.tell(__doc__)
        return 2
    try:
        cluster = chosen(shell, environment)
        match words[0]:
            case "where":
                print(where(cluster))
            case "up":
                shell.tell(WHY[cluster.name])
                cluster.up()
            case "images":
                cluster.images()
            case "down":
                cluster.down()
    except ClusterError as error:
        shell.tell(f"cluster: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Terminal(), os.environ))
