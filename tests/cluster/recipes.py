"""What the cluster is built from: one row a program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from place import HERE

MODULES: dict[str, Path] = {path.name: path for path in sorted((HERE / "go").iterdir())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one program is built."""

    name: str
    module: str
    """The folder with its go.mod."""
    upstream: str
    """The Go module it comes from."""
    path: str
    """Of its main package there."""
    link: str = ""
    cgo: bool = False
    extra: bool = False
    """Built only when it is named."""

    @property
    def package(self) -> str:
        return f"{self.upstream}/{self.path}".rstrip("/")


K8S = "k8s.io/kubernetes"
ARGO = "github.com/argoproj/argo-workflows/v3"
KFP = "github.com/kubeflow/pipelines"
VERSION = "k8s.io/component-base/version"
# The kubelet and the API server compare these; without them they are v0.0.0.
KUBERNETES = f"-X {VERSION}.gitVersion=v1.36.1 -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=36"

ROWS = (
    *(
        Recipe(name=name, module="k8s", upstream=K8S, path=f"cmd/{name}", link=KUBERNETES)
        for name in (
            "kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy",
        )
    ),
    Recipe(name="etcd", module="etcd", upstream="go.etcd.io/etcd/server/v3", path=""),
    Recipe(name="coredns", module="coredns", upstream="github.com/coredns/coredns", path=""),
    Recipe(name="minio", module="minio", upstream="github.com/minio/minio", path=""),
    Recipe(name="helm", module="helm", upstream="helm.sh/helm/v3", path="cmd/helm"),
    *(
        Recipe(
            name=name, module="argo", upstream=ARGO, path=f"cmd/{name}",
            link=f"-X {ARGO}.version=v3.7.14",
        )
        for name in ("workflow-controller", "argoexec")
    ),
    Recipe(name="kfp-launcher", module="kfp", upstream=KFP, path="backend/src/v2/cmd/launcher-v2"),
    Recipe(name="kfp-driver", module="kfp", upstream=KFP, path="backend/src/v2/cmd/driver"),
    Recipe(
        name="kfp-persistence-agent", module="kfp", upstream=KFP,
        path="backend/src/agent/persistence",
    ),
    Recipe(
        name="kfp-apiserver", module="kfp", upstream=KFP, path="backend/src/apiserver", cgo=True
    ),
    Recipe(
        name="kuberay", module="kuberay", upstream="github.com/ray-project/kuberay/ray-operator",
        path="", extra=True,
    ),
    Recipe(
        name="kueue", module="kueue", upstream="sigs.k8s.io/kueue", path="cmd/kueue", extra=True
    ),
)  # fmt: skip
RECIPES = {recipe.name: recipe for recipe in ROWS}

MANIFESTS = {
    # where it goes: (which program's module holds it, where)
    "manifests/argo-crds": ("workflow-controller", "manifests/base/crds/minimal"),
    "manifests/kfp": ("kfp-apiserver", "manifests/kustomize/base"),
    "manifests/kueue-crds": ("kueue", "config/components/crd/bases"),
    "kfp-config/config.json": ("kfp-apiserver", "backend/src/apiserver/config/config.json"),
}
