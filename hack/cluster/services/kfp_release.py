"""Select the Kubeflow Pipelines release: the one that is built here, or another in a folder.

    AGENTRL_KFP=FOLDER make e2e

FOLDER contains a release from 2.16 on, built and configured as its project does:

    bin/                   kfp-apiserver, kfp-persistence-agent and Argo's workflow-controller;
                           statically linked: kfp-driver, kfp-launcher and Argo's argoexec
    manifests/kfp/         its manifests/kustomize/base
    manifests/argo-crds/   its Argo's manifests/base/crds/minimal
    config/config.json     its API server's configuration
    argo.yaml              its ConfigMap workflow-controller-configmap, without placeholders
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cluster.settings import BIN, BUILD, HERE, ClusterError

VARIABLE = "AGENTRL_KFP"
PROGRAMS = (
    "kfp-apiserver", "kfp-driver", "kfp-launcher", "kfp-persistence-agent", "workflow-controller",
    "argoexec",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Programs, manifests and configuration of Kubeflow Pipelines with its Argo."""

    programs: Path
    manifests: Path
    config: Path
    argo: Path
    """ConfigMap of Argo's controller."""
    user: str = ""
    """User id of drivers, launchers and Argo's executors; empty for root."""
    labels: tuple[str, ...] = ()
    """Labels of the namespace."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment of the API server, in addition to what every release needs."""

    def check(self) -> None:
        """Raises ClusterError naming the files that are missing."""
        kinds = [self.manifests / name for name in ("kfp", "argo-crds")]
        needed = [*(self.programs / name for name in PROGRAMS), *kinds, self.config, self.argo]
        if missing := [str(path) for path in needed if not path.exists()]:
            raise ClusterError(f"missing files of Kubeflow Pipelines: {', '.join(missing)}")


BUILT = Release(
    programs=BIN,
    manifests=BUILD / "manifests",
    config=BUILD / "kfp-config",
    argo=HERE / "config/argo.yaml",
)


def release_in(folder: Path) -> Release:
    """The release in a folder, run as KFP's own manifests run it from 2.16 on."""
    return Release(
        programs=folder / "bin",
        manifests=folder / "manifests",
        config=folder / "config",
        argo=folder / "argo.yaml",
        user="65532",
        labels=("pod-security.kubernetes.io/enforce=baseline",),
        environment={"PUBLISH_LOGS": "true", "PIPELINE_LOG_LEVEL": "1"},
    )


def select(environment: Mapping[str, str] = os.environ) -> Release:
    """The release that AGENTRL_KFP names, or the one that is built here."""
    folder = environment.get(VARIABLE)
    return release_in(Path(folder).absolute()) if folder else BUILT
