"""The local cluster, as one of the clusters that select_cluster.py can select."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from cluster import settings
from cluster.shell import Shell

UP_S = 7200.0
"""Time limit that includes the first build of every program, in seconds."""
IMAGES = (
    ("operator", "operator"),
    ("stage", "stage"),
    ("environment", "envs"),
    ("environmentScience", "envs-science"),
    ("environmentWeb", "envs-web"),
)
"""Image names in the chart's values, and their targets in the Dockerfile."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """Kubernetes started from programs built here: needs root and Go, no Docker, no registry."""

    shell: Shell

    name = "local"
    kubeconfig = str(settings.KUBECONFIG)

    def up(self) -> None:
        self._run("up", seconds=UP_S)

    def images(self) -> None:
        self._run("images", seconds=UP_S)

    def down(self) -> None:
        self._run("down", seconds=300)

    def values(self) -> dict[str, str]:
        values = {
            "kfp.uiUrl": "http://127.0.0.1:3000",
            "storage.url": "s3://agentrl",
            "storage.endpoint": "http://minio-service.kubeflow.svc.cluster.local:9000",
            "storage.existingSecret": "agentrl-storage",
            "tracking.uri": "http://mlflow.kubeflow.svc.cluster.local:5000",
            "tracking.uiUrl": f"http://{settings.IP}:5000",
            "pollSeconds": "1",
        }
        for image, target in IMAGES:
            values[f"images.{image}.repository"] = f"docker.io/local/agentrl-{target}"
            values[f"images.{image}.tag"] = "dev"
        return values

    def _run(self, command: str, seconds: float) -> None:
        self.shell.run(sys.executable, str(settings.HERE), "local", command, seconds=seconds)
