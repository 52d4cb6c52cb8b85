"""Which Kubeflow Pipelines runs: the one that is built here, or programs that are given.

    AGENTRL_KFP=FOLDER make e2e

FOLDER holds another version, 2.16 or later, as its makers build and configure it:

    bin/                   kfp-apiserver, kfp-persistence-agent and Argo's workflow-controller;
                           linked statically: kfp-driver, kfp-launcher and Argo's argoexec
    manifests/kfp/         its manifests/kustomize/base
    manifests/argo-crds/   its Argo's manifests/base/crds/minimal
    config/config.json     its API server's configuration
    argo.yaml              its ConfigMap workflow-controller-configmap, with names filled in
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from place import BIN, BUILD, HERE, ClusterError

GIVEN = "AGENTRL_KFP"
PROGRAMS = (
    "kfp-apiserver", "kfp-driver", "kfp-launcher", "kfp-persistence-agent", "workflow-controller",
    "argoexec",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Kubeflow Pipelines with its Argo."""

    programs: Path
    manifests: Path
    config: Path
    argo: Path
    """The ConfigMap of Argo's controller."""
    user: str = ""
    """Whom drivers, launchers and Argo's executors run as; empty: root."""
    labels: tuple[str, ...] = ()
    """Of the namespace."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of its API server, beyond what every version needs."""

    def check(self) -> None:
        """Raises `ClusterError` naming what is not there."""
        kinds = [self.manifests / name for name in ("kfp", "argo-crds")]
        needed = [*(self.programs / name for name in PROGRAMS), *kinds, self.config, self.argo]
        if missing := [str(path) for path in needed if not path.exists()]:
            raise ClusterError(f"of Kubeflow Pipelines are not there: {', '.join(missing)}")


BUILT = Backend(
    programs=BIN,
    manifests=BUILD / "manifests",
    config=BUILD / "kfp-config",
    argo=HERE / "config/argo.yaml",
)


def given(folder: Path) -> Backend:
    """What the folder holds, run as KFP's own manifests run it from 2.16 on."""
    return Backend(
        programs=folder / "bin",
        manifests=folder / "manifests",
        config=folder / "config",
        argo=folder / "argo.yaml",
        user="65532",
        labels=("pod-security.kubernetes.io/enforce=baseline",),
        environment={"PUBLISH_LOGS": "true", "PIPELINE_LOG_LEVEL": "1"},
    )


def chosen(environment: Mapping[str, str] = os.environ) -> Backend:
    """The one that is asked for."""
    folder = environment.get(GIVEN)
    return given(Path(folder).absolute()) if folder else BUILT
