"""Commands of the local cluster: Kubernetes 1.36, Kubeflow Pipelines 2.14, MinIO and MLflow.

    python hack/cluster local up              start everything and print how to reach it
    python hack/cluster local images [TARGET...]
                                              build the AgentRL images and load them; without a
                                              target, all but envs-science and envs-web
    python hack/cluster local status          list the processes of the cluster
    python hack/cluster local load TAR...     import OCI image archives
    python hack/cluster local expose NAMESPACE NAME PORT...
                                              create a Service for processes of this machine
    python hack/cluster local kuberay         start KubeRay; `hack/cluster build kuberay` builds it
    python hack/cluster local kueue           start Kueue, built like KubeRay
    python hack/cluster local sandboxes       start agent-sandbox, built like KubeRay
    python hack/cluster local kill NAME       kill one process (see `status` for the names)
    python hack/cluster local restart NAME    start one process again with the same arguments
    python hack/cluster local down            stop everything and remove its files

The commands need root. $STATE overrides the folder of the running cluster.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cluster import command, processes, teardown
from cluster.images import product_images
from cluster.kubernetes import certificates, control_plane, node
from cluster.programs import build
from cluster.services import agent_sandbox, kubeflow_pipelines, storage
from cluster.services import kuberay as ray_operator
from cluster.services import kueue as queues
from cluster.settings import (
    DATA,
    DATA_SIZE,
    IP,
    KEYS,
    KUBECONFIG,
    NAMESPACE,
    STATE,
    ClusterError,
)

UP = STATE / "up"
"""Written once everything has started; a state folder without it is from an interrupted start."""


def up() -> None:
    """Start the cluster, unless all of it is running and serving."""
    began = time.monotonic()
    if UP.exists() and not (failed := [*failed_processes(), *outdated()]):
        print("The cluster is already running.")
    else:
        if UP.exists():
            print(f"Restarting the cluster, because of: {', '.join(failed)}")
        build.build_all()
        kubeflow_pipelines.RELEASE.check()
        teardown.down()  # remove what an interrupted run left
        DATA.mkdir(parents=True)
        command.run("mount", "-t", "tmpfs", "-o", f"size={DATA_SIZE}", "agentrl", DATA)
        start()
        UP.write_text(str(kubeflow_pipelines.BIN))
        print(f"The cluster is running, after {time.monotonic() - began:.0f} s.")
    print(f"export KUBECONFIG={KUBECONFIG}")
    print(f"Kubeflow Pipelines {kubeflow_pipelines.URL}   MLflow {storage.MLFLOW}")
    print(f"MinIO {storage.MINIO} ({KEYS.access} / {KEYS.secret})   logs {processes.LOGS}")


def start() -> None:
    """Start everything in the order of its dependencies, the slowest first."""
    node.create_bridge()
    certificates.create()
    control_plane.start_api_server()
    node.start_containerd()
    storage.start()
    control_plane.wait_ready()
    node.start_kubelet()
    control_plane.create_namespace(NAMESPACE)
    kubeflow_pipelines.create_resources()
    storage.create_services()
    kubeflow_pipelines.load_images()
    storage.wait_ready()
    kubeflow_pipelines.start()
    node.wait_ready()
    processes.wait_ready(processes.find("mlflow"))
    for process in processes.recorded():
        if not process.alive:
            raise ClusterError(f"{process.name} exited after its start; read {process.log}")


def failed_processes() -> list[str]:
    """Names of the processes that should run and do not, or do not serve."""
    failed = [process.name for process in processes.recorded() if not is_healthy(process)]
    return failed if node.is_ready() else [*failed, "the node"]


def outdated() -> list[str]:
    """Whether AGENTRL_KFP asks for another Kubeflow Pipelines than the running one."""
    same = UP.read_text() == str(kubeflow_pipelines.BIN)
    return [] if same else ["another Kubeflow Pipelines is requested"]


def is_healthy(process: processes.Process) -> bool:
    return process.alive and (not process.ready or processes.answers(process.ready))


def images(*targets: str) -> None:
    product_images.build_and_load(targets or product_images.TARGETS)


def status() -> None:
    for process in processes.recorded():
        print(f"{process.name:22} {'runs' if process.alive else 'DEAD':5} {process.log}")
    if not UP.exists():
        raise ClusterError("no cluster is running here: `make cluster` starts one")
    if failed := failed_processes():
        raise ClusterError(f"not healthy: {', '.join(failed)}")
    print(f"export KUBECONFIG={KUBECONFIG}")


def load(*archives: str) -> None:
    for path in archives:
        command.ctr("images", "import", Path(path).absolute())


def expose(namespace: str, name: str, *ports: str) -> None:
    command.expose(namespace, name, *(("TCP", int(port)) for port in ports))
    print(f"{name}.{namespace}.svc leads to {IP}, ports {', '.join(ports)}")


def kuberay() -> None:
    ray_operator.start()


def kueue() -> None:
    queues.start()


def sandboxes() -> None:
    agent_sandbox.start()


def kill(name: str) -> None:
    processes.kill(name)


def restart(name: str) -> None:
    processes.restart(name)


COMMANDS: tuple[Callable[..., None], ...] = (
    up, images, status, load, expose, kuberay, kueue, sandboxes, kill, restart, teardown.down,
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run one command. Returns the exit status."""
    known = {function.__name__: function for function in COMMANDS}
    if not words or words[0] not in known:
        print(__doc__)
        return 2
    if os.geteuid() != 0:
        print("This needs root: it mounts file systems and creates interfaces.", file=sys.stderr)
        return 1
    try:
        known[words[0]](*words[1:])
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0
