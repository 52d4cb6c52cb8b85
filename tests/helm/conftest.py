"""Fixtures that render the chart with a real Helm."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "helm" / "agentrl"
Manifest = dict[str, Any]


@pytest.fixture(scope="session")
def helm() -> str:
    """Path of the Helm binary: from PATH, or the one that hack/cluster has built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
    built = Path(os.environ.get("AGENTRL_CLUSTER_BUILD") or cache / "cluster") / "bin" / "helm"
    found = shutil.which("helm") or (str(built) if os.access(built, os.X_OK) else None)
    if found is None:
        pytest.skip("helm is neither on PATH nor built by hack/cluster")
    return found


@pytest.fixture(scope="session")
def template(helm: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Function that runs `helm template` with given values and returns the completed process."""

    def run(
        values: Manifest | None = None,
        *options: str,
        chart: Path = CHART,
        namespace: str = "kubeflow",
        release: str = "agentrl",
    ) -> subprocess.CompletedProcess[str]:
        command = [helm, "template", release, str(chart), "--namespace", namespace]
        return subprocess.run(
            [*command, "--kube-version", "1.36.0", "--values", "-", *options],
            input=json.dumps(values or {}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def render(
    template: Callable[..., subprocess.CompletedProcess[str]],
) -> Callable[..., list[Manifest]]:
    """Function that returns the objects that the chart renders from given values."""

    def objects(values: Manifest | None = None, **options: Any) -> list[Manifest]:
        ended = template(values, **options)
        assert ended.returncode == 0, ended.stderr
        return [one for one in yaml.safe_load_all(ended.stdout) if one]

    return objects


@pytest.fixture(scope="session")
def everything() -> Manifest:
    """Values that enable all options of the chart."""
    return {
        "commonLabels": {"team": "rl"},
        "commonAnnotations": {"owner": "rl"},
        "kfp": {"multiUser": True, "uiUrl": "https://kfp.example.org"},
        "kueue": {"admission": "run"},
        "images": {"pullSecrets": ["registry"], "operator": {"tag": "1.2"}},
        "serviceAccount": {"annotations": {"a": "b"}},
        "operator": {
            "podLabels": {"c": "d"},
            "podAnnotations": {"e": "f"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "control", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/ca/ca.crt"}],
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
        },
        "networkPolicy": {
            "apiServerCidrs": ["10.0.0.1/32"],
            "extraEgress": [{"ports": [{"protocol": "TCP", "port": 8443}]}],
            "environmentFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
        },
        "metrics": {
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "podMonitor": {"enabled": True},
            "prometheusRule": {"enabled": True},
            "dashboard": {"enabled": True, "annotations": {"folder": "ml"}},
        },
        "minio": {"enabled": True, "persistence": {"enabled": True, "storageClassName": "fast"}},
        "mlflow": {
            "enabled": True,
            "allowedHosts": ["mlflow.example.org"],
            "persistence": {"enabled": True},
        },
    }
