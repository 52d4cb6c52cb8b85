"""A cluster that somebody else looks after: looked at, used, never started and never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kind import IMAGES, TRY_OUT, build, docker_runs
from place import NAMESPACE, ClusterError
from shell import Shell

REGISTRY = "AGENTRL_REGISTRY"
TAG = "dev"
BESIDE_KFP = ("service/ml-pipeline", "secret/mlpipeline-minio-artifact")
INSTALL = "install Kubeflow Pipelines 2.14 to 2.17 there: docs/install.md, step 2"
PUSH_S = 1800.0


@dataclass(frozen=True, slots=True)
class Given:
    """The cluster that KUBECONFIG names."""

    shell: Shell
    environment: Mapping[str, str]

    name = "given"

    @property
    def kubeconfig(self) -> str:
        return self.environment["KUBECONFIG"]

    @property
    def registry(self) -> str:
        """Where its nodes pull from. Empty: nothing was said."""
        return self.environment.get(REGISTRY, "").rstrip("/")

    def up(self) -> None:
        """Whether it answers and has what the tests need; `ClusterError` says what is missing."""
        try:
            self.shell.ask("kubectl", "get", "--raw=/readyz", "--request-timeout=10s")
        except ClusterError as error:
            raise ClusterError(
                f"KUBECONFIG={self.kubeconfig}: no cluster answers ({error}); correct it, or unset "
                "it to have a cluster started here"
            ) from error
        missing = [thing for thing in BESIDE_KFP if not self.has(thing)]
        if missing:
            raise ClusterError(f"{NAMESPACE} has no {' and no '.join(missing)}; {INSTALL}")
        self.shell.tell("The cluster that KUBECONFIG names answers; nothing was started.")

    def images(self) -> None:
        """Hand them over: by a registry, or straight into kind's nodes."""
        context = self.shell.ask("kubectl", "config", "current-context").strip()
        if self.registry and not docker_runs(self.shell):
            self.shell.tell(f"No Docker here: {', '.join(self.named())} are taken as they are.")
        elif self.registry:
            for target, image in zip(IMAGES, self.named(), strict=True):
                build(self.shell, target, image)
                self.shell.do("docker", "push", image, seconds=PUSH_S)
        elif context.startswith("kind-"):
            for target, image in IMAGES.items():
                build(self.shell, target, image)
            node = ("--name", context.removeprefix("kind-"))
            self.shell.do("kind", "load", "docker-image", *node, *IMAGES.values(), seconds=900)
        else:
            raise ClusterError(
                f"{context}: its nodes must get our images from somewhere; set {REGISTRY} to a "
                "registry that they pull from, such as registry.example.org/team"
            )

    def down(self) -> None:
        self.shell.tell("The cluster that KUBECONFIG names is not ours to stop: it stays.")

    def values(self) -> dict[str, str]:
        """Of the chart: the images, and KFP's own store by the name that it has there."""
        values = dict(TRY_OUT)
        if not self.has("service/minio-service"):  # so it is with KFP 2.16 and later
            values["storage.url"] = "s3://mlpipeline/agentrl"
            values["storage.endpoint"] = f"http://seaweedfs.{NAMESPACE}.svc:9000"
            values["storage.existingSecret"] = "mlpipeline-minio-artifact"
        if self.registry:
            for part, image in zip(("operator", "stage", "environment"), self.named(), strict=True):
                values[f"images.{part}.repository"] = image.removesuffix(f":{TAG}")
                values[f"images.{part}.tag"] = TAG
            values["images.pullPolicy"] = "Always"  # the tag stays while the images change
        return values

    def named(self) -> list[str]:
        """The images as they are called in the registry."""
        names = [image.rpartition("/")[2].partition(":")[0] for image in IMAGES.values()]
        return [f"{self.registry}/{name}:{TAG}" for name in names]

    def has(self, thing: str) -> bool:
        try:
            self.shell.ask("kubectl", "-n", NAMESPACE, "get", thing, "-o", "name")
        except ClusterError:
            return False
        return True
