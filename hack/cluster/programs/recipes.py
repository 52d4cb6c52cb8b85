"""The programs that are built for the local cluster, one row each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cluster.settings import HERE

MODULES: dict[str, Path] = {path.name: path for path in sorted((HERE / "programs/go").iterdir())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one program is built."""

    name: str
    upstream: str
    """Go module that contains the program."""
    path: str = ""
    """Path of the main package in the upstream module."""
    module: str = "cluster"
    """Folder in `go/` whose go.mod selects the versions. Programs of one folder share their
    dependencies, which are compiled once; other folders need other versions of them."""
    local: str = ""
    """Path of the main package in the folder, for programs whose main package is ours."""
    extra: bool = False
    """Built only on request."""

    @property
    def package(self) -> str:
        return f"./{self.local}" if self.local else f"{self.upstream}/{self.path}".rstrip("/")

    @property
    def output(self) -> str:
        """File name that `go build` gives the program: the last part that is not a version."""
        *others, last = self.package.split("/")
        return others[-1] if re.fullmatch(r"v\d+", last) else last


K8S = "k8s.io/kubernetes"
ARGO = "github.com/argoproj/argo-workflows/v3"
KFP = "github.com/kubeflow/pipelines"
VERSION = "k8s.io/component-base/version"
# The kubelet and the API server compare these; without the flags they would be v0.0.0.
LINK = (
    f"-s -w -X {VERSION}.gitVersion=v1.36.1 -X {VERSION}.gitMajor=1 -X {VERSION}.gitMinor=36"
    f" -X {ARGO}.version=v3.7.14"
)

ROWS = (
    *(
        Recipe(name=name, upstream=K8S, path=f"cmd/{name}")
        for name in (
            "kube-apiserver", "kubelet", "kube-controller-manager", "kube-scheduler", "kube-proxy",
        )
    ),
    Recipe(name="etcd", upstream="go.etcd.io/etcd/server/v3"),
    Recipe(name="coredns", upstream="github.com/coredns/coredns", local="coredns"),
    Recipe(name="helm", upstream="helm.sh/helm/v3", path="cmd/helm"),
    Recipe(name="minio", module="minio", upstream="github.com/minio/minio"),
    *(
        Recipe(name=name, module="argo", upstream=ARGO, path=f"cmd/{name}")
        for name in ("workflow-controller", "argoexec")
    ),
    *(
        Recipe(name=name, module="kfp", upstream=KFP, path=f"backend/src/{path}")
        for name, path in (
            ("kfp-launcher", "v2/cmd/launcher-v2"), ("kfp-driver", "v2/cmd/driver"),
            ("kfp-persistence-agent", "agent/persistence"), ("kfp-apiserver", "apiserver"),
        )
    ),
    Recipe(
        name="kuberay", module="kuberay", upstream="github.com/ray-project/kuberay/ray-operator",
        extra=True,
    ),
    Recipe(
        name="agent-sandbox", module="agent-sandbox", upstream="sigs.k8s.io/agent-sandbox",
        path="cmd/agent-sandbox-controller", extra=True,
    ),
    Recipe(name="kueue", upstream="sigs.k8s.io/kueue", path="cmd/kueue", extra=True),
)  # fmt: skip
RECIPES = {recipe.name: recipe for recipe in ROWS}

MANIFESTS = {
    # target in the cache: (program whose module contains it, path in the upstream module)
    "manifests/argo-crds": ("workflow-controller", "manifests/base/crds/minimal"),
    "manifests/kfp": ("kfp-apiserver", "manifests/kustomize/base"),
    "manifests/kueue-crds": ("kueue", "config/components/crd/bases"),
    "manifests/agent-sandbox-crds": ("agent-sandbox", "k8s/crds"),
    "manifests/kuberay-crds": ("kuberay", "config/crd/bases"),
    "kfp-config/config.json": ("kfp-apiserver", "backend/src/apiserver/config/config.json"),
}
