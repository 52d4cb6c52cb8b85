"""A cluster of kind's, on this machine's Docker, as docs/install.md has a person make it.

The commands are those of that page, word for word; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from place import CACHE, NAMESPACE, REPOSITORY, ClusterError
from shell import Shell

NAME = "agentrl"
KUBECONFIG = CACHE / "kind.kubeconfig"
"""A file of its own: a person's contexts stay as they are."""
KFP = "2.14.3"
MANIFESTS = "github.com/kubeflow/pipelines/manifests/kustomize"
IMAGES = {
    "operator": "ghcr.io/agentrl/agentrl-operator:0.1.0",
    "stage": "ghcr.io/agentrl/agentrl:0.1.0",
    "envs": "ghcr.io/agentrl/agentrl-envs:0.1.0",
}
"""As the chart calls them, by target of the Dockerfile."""
MINIO = "docker.io/minio/minio:RELEASE.2019-08-14T20-37-41Z"
"""Which KFP 2.15 names; the image that 2.14.3 names was taken away."""
IN_SIGHT = ("ml-pipeline", "workflow-controller", "metadata-grpc-deployment")
"""What a pipeline needs before it can begin; these wait for the database and the store."""
TRY_OUT = {
    "mlflow.enabled": "true",
    "mlflow.persistence.enabled": "true",  # the tests delete its pod
    "pollSeconds": "1",
}
"""Values of the chart for a cluster that has Kubeflow Pipelines and no MLflow."""
BUILD_S = 3600.0


@dataclass(frozen=True, slots=True)
class Kind:
    """The cluster `agentrl` of kind's."""

    shell: Shell

    name = "kind"
    kubeconfig = str(KUBECONFIG)

    def up(self) -> None:
        """Make it, and Kubeflow Pipelines in it. Quick where both are there."""
        KUBECONFIG.parent.mkdir(parents=True, exist_ok=True)
        if self.exists():
            self.do("kind", "export", "kubeconfig", "--name", NAME)
        else:
            self.do("kind", "create", "cluster", "--name", NAME, seconds=900)
        if not self.has_pipelines():
            self.apply("cluster-scoped-resources")
            crd = "crd/applications.app.k8s.io"
            self.do(
                "kubectl", "wait", "--for=condition=established", "--timeout=60s", crd, seconds=90
            )
            self.apply("env/platform-agnostic")
            image = ("set", "image", "deployment/minio", f"minio={MINIO}")
            self.do("kubectl", "-n", NAMESPACE, *image)
        available = ("--for=condition=Available", "--timeout=15m")
        deployments = (f"deployment/{each}" for each in IN_SIGHT)
        self.do("kubectl", "-n", NAMESPACE, "wait", *available, *deployments, seconds=960)
        self.shell.tell(f"export KUBECONFIG={self.kubeconfig}")

    def apply(self, part: str) -> None:
        self.do("kubectl", "apply", "-k", f"{MANIFESTS}/{part}?ref={KFP}", seconds=300)

    def has_pipelines(self) -> bool:
        """Whether the last step of their installation was done."""
        image = "-o=jsonpath={.spec.template.spec.containers[0].image}"
        asked = ("kubectl", "-n", NAMESPACE, "get", "deployment/minio", image)
        try:
            return self.shell.ask(*asked, env={"KUBECONFIG": self.kubeconfig}) == MINIO
        except ClusterError:
            return False

    def images(self) -> None:
        """Build them with Docker and load them into the node."""
        for target, image in IMAGES.items():
            build(self.shell, target, image)
        self.do("kind", "load", "docker-image", "--name", NAME, *IMAGES.values(), seconds=900)

    def down(self) -> None:
        """Delete it, and nothing else."""
        if self.exists():
            self.do("kind", "delete", "cluster", "--name", NAME, seconds=300)
        KUBECONFIG.unlink(missing_ok=True)

    def exists(self) -> bool:
        return NAME in self.shell.ask("kind", "get", "clusters").split()

    def values(self) -> dict[str, str]:
        return TRY_OUT

    def do(self, *argv: str, seconds: float = 60) -> None:
        self.shell.do(*argv, seconds=seconds, env={"KUBECONFIG": self.kubeconfig})


def build(shell: Shell, target: str, image: str) -> None:
    """One target of the Dockerfile; without CUDA, which the tests do not need."""
    less = ("--build-arg", "CUDA=no") if target == "stage" else ()
    words = ("docker", "build", "--target", target, *less, "-t", image, str(REPOSITORY))
    shell.do(*words, seconds=BUILD_S)


def docker_runs(shell: Shell) -> bool:
    """Whether a Docker engine answers."""
    try:
        shell.ask("docker", "info", seconds=15)
    except ClusterError:
        return False
    return True


def is_here(shell: Shell) -> bool:
    """Whether kind is, and a Docker engine under it."""
    try:
        shell.ask("kind", "version")
    except ClusterError:
        return False
    return docker_runs(shell)
