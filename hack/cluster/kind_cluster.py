"""A kind cluster on the Docker of this machine, created as docs/install.md describes.

The commands are those of that page, word for word; tests/cluster/test_select_cluster.py compares
them.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.settings import CACHE, NAMESPACE, REPOSITORY, ClusterError
from cluster.shell import Shell

NAME = "agentrl"
KUBECONFIG = CACHE / "kind.kubeconfig"
"""A separate file, so that the user's own contexts stay unchanged."""
KFP = "2.14.3"
MANIFESTS = "github.com/kubeflow/pipelines/manifests/kustomize"
IMAGES = {
    "operator": "ghcr.io/agentrl/agentrl-operator:0.1.0",
    "stage": "ghcr.io/agentrl/agentrl:0.1.0",
    "envs": "ghcr.io/agentrl/agentrl-envs:0.1.0",
}
"""Image names in the chart, by target of the Dockerfile."""
MINIO = "docker.io/minio/minio:RELEASE.2019-08-14T20-37-41Z"
"""The image of KFP 2.15; the one that 2.14.3 names was removed from its registry."""
DEPLOYMENTS = ("ml-pipeline", "workflow-controller", "metadata-grpc-deployment")
"""Deployments that a pipeline needs; they in turn wait for the database and the object store."""
MLFLOW_VALUES = {
    "mlflow.enabled": "true",
    "mlflow.persistence.enabled": "true",  # the tests delete its pod
    "pollSeconds": "1",
}
"""Chart values for a cluster with Kubeflow Pipelines and without MLflow."""
BUILD_S = 3600.0


@dataclass(frozen=True, slots=True)
class KindCluster:
    """The kind cluster `agentrl`."""

    shell: Shell

    name = "kind"
    kubeconfig = str(KUBECONFIG)

    def up(self) -> None:
        """Create the cluster and install Kubeflow Pipelines, each only if it is missing."""
        KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
        if self._exists():
            self._run("kind", "export", "kubeconfig", "--name", NAME)
        else:
            self._run("kind", "create", "cluster", "--name", NAME, seconds=900)
        if not self._has_pipelines():
            self._apply("cluster-scoped-resources")
            crd = "crd/applications.app.k8s.io"
            self._run(
                "kubectl", "wait", "--for=condition=established", "--timeout=60s", crd, seconds=90
            )
            self._apply("env/platform-agnostic")
            image = ("set", "image", "deployment/minio", f"minio={MINIO}")
            self._run("kubectl", "-n", NAMESPACE, *image)
        available = ("--for=condition=Available", "--timeout=15m")
        deployments = (f"deployment/{each}" for each in DEPLOYMENTS)
        self._run("kubectl", "-n", NAMESPACE, "wait", *available, *deployments, seconds=960)
        self.shell.message(f"export KUBECONFIG={self.kubeconfig}")

    def images(self) -> None:
        """Build the images with Docker and load them into the node."""
        for target, image in IMAGES.items():
            build_image(self.shell, target, image)
        self._run("kind", "load", "docker-image", "--name", NAME, *IMAGES.values(), seconds=900)

    def down(self) -> None:
        """Delete this cluster; other kind clusters stay."""
        if self._exists():
            self._run("kind", "delete", "cluster", "--name", NAME, seconds=300)
        KUBECONFIG.unlink(missing_ok=True)

    def values(self) -> dict[str, str]:
        return MLFLOW_VALUES

    def _exists(self) -> bool:
        return NAME in self.shell.output("kind", "get", "clusters").split()

    def _has_pipelines(self) -> bool:
        """Whether the last step of the installation of Kubeflow Pipelines was done."""
        image = "-o=jsonpath={.spec.template.spec.containers[0].image}"
        command = ("kubectl", "-n", NAMESPACE, "get", "deployment/minio", image)
        try:
            return self.shell.output(*command, env={"KUBECONFIG": self.kubeconfig}) == MINIO
        except ClusterError:
            return False

    def _apply(self, part: str) -> None:
        self._run("kubectl", "apply", "-k", f"{MANIFESTS}/{part}?ref={KFP}", seconds=300)

    def _run(self, *argv: str, seconds: float = 60) -> None:
        self.shell.run(*argv, seconds=seconds, env={"KUBECONFIG": self.kubeconfig})


def build_image(shell: Shell, target: str, image: str) -> None:
    """Build one target of the Dockerfile; without CUDA, which the tests do not use."""
    without_cuda = ("--build-arg", "CUDA=no") if target == "stage" else ()
    words = ("docker", "build", "--target", target, *without_cuda, "-t", image, str(REPOSITORY))
    shell.run(*words, seconds=BUILD_S)


def docker_is_running(shell: Shell) -> bool:
    """Whether a Docker engine answers."""
    try:
        shell.output("docker", "info", seconds=15)
    except ClusterError:
        return False
    return True


def is_available(shell: Shell) -> bool:
    """Whether kind is installed and a Docker engine answers."""
    try:
        shell.output("kind", "version")
    except ClusterError:
        return False
    return docker_is_running(shell)
