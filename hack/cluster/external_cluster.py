"""A cluster that somebody else operates: checked and used, never started or stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.kind_cluster import IMAGES, MLFLOW_VALUES, build_image, docker_is_running
from cluster.settings import NAMESPACE, ClusterError
from cluster.shell import Shell

REGISTRY = "AGENTRL_REGISTRY"
TAG = "dev"
REQUIRED = ("service/ml-pipeline", "secret/mlpipeline-minio-artifact")
INSTALL = "install Kubeflow Pipelines 2.14 to 2.17 there: docs/install.md, step 2"
PUSH_S = 1800.0


@dataclass(frozen=True, slots=True)
class ExternalCluster:
    """The cluster that KUBECONFIG names."""

    shell: Shell
    environment: Mapping[str, str]

    name = "external"

    @property
    def kubeconfig(self) -> str:
        return self.environment["KUBECONFIG"]

    @property
    def registry(self) -> str:
        """Registry that the nodes pull from; empty if AGENTRL_REGISTRY is not set."""
        return self.environment.get(REGISTRY, "").rstrip("/")

    def up(self) -> None:
        """Check that the cluster answers and runs Kubeflow Pipelines.

        Raises ClusterError naming what is missing.
        """
        try:
            self.shell.output("kubectl", "get", "--raw=/readyz", "--request-timeout=10s")
        except ClusterError as error:
            raise ClusterError(
                f"KUBECONFIG={self.kubeconfig}: the cluster does not answer ({error}); correct "
                "KUBECONFIG, or unset it to start a cluster here"
            ) from error
        missing = [name for name in REQUIRED if not self._exists(name)]
        if missing:
            raise ClusterError(f"namespace {NAMESPACE} lacks {' and '.join(missing)}; {INSTALL}")
        self.shell.message("The cluster that KUBECONFIG names answers; nothing was started.")

    def images(self) -> None:
        """Push the images to the registry, or load them into the nodes of a kind cluster."""
        context = self.shell.output("kubectl", "config", "current-context").strip()
        if self.registry and not docker_is_running(self.shell):
            names = ", ".join(self._names_in_registry())
            self.shell.message(f"Docker is not running: using {names} as they are.")
        elif self.registry:
            for target, image in zip(IMAGES, self._names_in_registry(), strict=True):
                build_image(self.shell, target, image)
                self.shell.run("docker", "push", image, seconds=PUSH_S)
        elif context.startswith("kind-"):
            for target, image in IMAGES.items():
                build_image(self.shell, target, image)
            cluster = ("--name", context.removeprefix("kind-"))
            self.shell.run("kind", "load", "docker-image", *cluster, *IMAGES.values(), seconds=900)
        else:
            raise ClusterError(
                f"{context}: the nodes need a registry to pull the images from; set {REGISTRY} "
                "to one, such as registry.example.org/team"
            )

    def down(self) -> None:
        self.shell.message("The cluster that KUBECONFIG names is external: it keeps running.")

    def values(self) -> dict[str, str]:
        """Values of the chart: the images, and the object store of Kubeflow Pipelines."""
        values = dict(MLFLOW_VALUES)
        if not self._exists("service/minio-service"):  # KFP 2.16 and later: SeaweedFS
            values["storage.url"] = "s3://mlpipeline/agentrl"
            values["storage.endpoint"] = f"http://seaweedfs.{NAMESPACE}.svc:9000"
            values["storage.existingSecret"] = "mlpipeline-minio-artifact"
        if self.registry:
            images = ("operator", "stage", "environment")
            for image, name in zip(images, self._names_in_registry(), strict=True):
                values[f"images.{image}.repository"] = name.removesuffix(f":{TAG}")
                values[f"images.{image}.tag"] = TAG
            values["images.pullPolicy"] = "Always"  # the tag stays the same while images change
        return values

    def _names_in_registry(self) -> list[str]:
        names = [image.rpartition("/")[2].partition(":")[0] for image in IMAGES.values()]
        return [f"{self.registry}/{name}:{TAG}" for name in names]

    def _exists(self, name: str) -> bool:
        try:
            self.shell.output("kubectl", "-n", NAMESPACE, "get", name, "-o", "name")
        except ClusterError:
            return False
        return True
