"""A real Kubernetes 1.36 with Kubeflow Pipelines 2.14, MinIO and MLflow: one node, as root.

    python tests/cluster/cluster.py up              start everything; says how to reach it
    python tests/cluster/cluster.py status          what runs
    python tests/cluster/cluster.py load TAR...     import OCI image archives
    python tests/cluster/cluster.py expose NAMESPACE NAME PORT...
                                                    a Service before processes of this machine
    python tests/cluster/cluster.py kill NAME       kill one process (see status for the names)
    python tests/cluster/cluster.py restart NAME    start one again as it was
    python tests/cluster/cluster.py down            stop everything, leave nothing

For machines without Docker, and for CI; see README.md beside this file. $STATE says where it runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import build
import certificates
import command
import control_plane
import node
import pipelines
import processes
import storage
import teardown
from place import DATA, DATA_SIZE, IP, KEYS, KUBECONFIG, NAMESPACE, STATE, ClusterError

UNTIL_UP = STATE / "up"
"""Written when everything has started: without it, what is there is of no use."""


def up() -> None:
    """Start the cluster, unless it is up and well."""
    began = time.monotonic()
    if UNTIL_UP.exists() and not (dead := [*troubles(), *replaced()]):
        print("The cluster is up already.")
    else:
        if UNTIL_UP.exists():
            print(f"Starting anew, since not all is well: {', '.join(dead)}")
        build.everything()
        pipelines.BACKEND.check()
        teardown.down()  # what an interrupted run left
        DATA.mkdir(parents=True)
        command.run("mount", "-t", "tmpfs", "-o", f"size={DATA_SIZE}", "agentrl", DATA)
        begin()
        UNTIL_UP.write_text(str(pipelines.BIN))
        print(f"The cluster is up, after {time.monotonic() - began:.0f} s.")
    print(f"export KUBECONFIG={KUBECONFIG}")
    print(f"Kubeflow Pipelines {pipelines.URL}   MLflow {storage.MLFLOW}")
    print(f"MinIO {storage.MINIO} ({KEYS.access} / {KEYS.secret})   logs {processes.LOGS}")


def begin() -> None:
    """In the order in which one needs the other; what takes long starts first."""
    node.network()
    certificates.make()
    control_plane.begin()
    node.runtime()
    storage.begin()
    control_plane.wait()
    node.begin()
    control_plane.namespace(NAMESPACE)
    pipelines.resources()
    storage.publish()
    pipelines.images()
    storage.wait()
    pipelines.begin()
    node.wait()
    processes.wait_ready(processes.named("mlflow"))
    for process in processes.every():
        if not process.alive:
            raise ClusterError(f"{process.name} ended after its start; read {process.log}")


def troubles() -> list[str]:
    """The processes that should run and do not, and the servers that do not answer."""
    found = [process for process in processes.every() if not well(process)]
    names = [process.name for process in found]
    return names if node.ready() else [*names, "the node"]


def replaced() -> list[str]:
    """Whether another Kubeflow Pipelines is asked for than runs."""
    same = UNTIL_UP.read_text() == str(pipelines.BIN)
    return [] if same else ["another Kubeflow Pipelines is asked for"]


def well(process: processes.Process) -> bool:
    return process.alive and (not process.ready or processes.answers(process.ready))


def status() -> None:
    for process in processes.every():
        print(f"{process.name:22} {'runs' if process.alive else 'DEAD':5} {process.log}")
    if not UNTIL_UP.exists():
        raise ClusterError("no cluster is up here: `make cluster` starts one")
    if dead := troubles():
        raise ClusterError(f"not well: {', '.join(dead)}")
    print(f"export KUBECONFIG={KUBECONFIG}")


def load(*archives: str) -> None:
    for path in archives:
        command.ctr("images", "import", Path(path).absolute())


def expose(namespace: str, name: str, *ports: str) -> None:
    command.expose(namespace, name, *(("TCP", int(port)) for port in ports))
    print(f"{name}.{namespace}.svc leads to {IP}, ports {', '.join(ports)}")


def kill(name: str) -> None:
    processes.kill(name)


def restart(name: str) -> None:
    processes.restart(name)


COMMANDS: tuple[Callable[..., None], ...] = (up, status, load, expose, kill, restart, teardown.down)


def main(words: list[str]) -> int:
    known = {function.__name__: function for function in COMMANDS}
    if not words or words[0] not in known:
        print(__doc__)
        return 2
    if os.geteuid() != 0:
        print("This needs root: it mounts, and makes network interfaces.", file=sys.stderr)
        return 1
    try:
        known[words[0]](*words[1:])
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
