"""The chart, installed on the test cluster with images built from this checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from installed import NAMESPACE, ROOT, Installed, manifest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
STATE = Path(os.environ.get("STATE") or CACHE / "cluster-state")
HELM = CACHE / "cluster/bin/helm"


@pytest.fixture(scope="session")
def installed() -> Installed:
    """AgentRL in KFP's namespace. Skipped where no cluster is up: `make e2e` starts one."""
    if not (STATE / "up").exists():
        pytest.skip("no cluster is up: `make cluster images` starts one and fills it")
    there = Installed(STATE / "admin.kubeconfig")
    values = {
        "kfp.namespace": NAMESPACE,
        "kfp.uiUrl": "http://127.0.0.1:3000",
        "storage.url": "s3://agentrl",
        "storage.endpoint": "http://minio-service.kubeflow.svc.cluster.local:9000",
        "storage.existingSecret": "agentrl-storage",
        "tracking.uri": "http://mlflow.kubeflow.svc.cluster.local:5000",
        "tracking.uiUrl": "http://10.244.0.1:5000",
        "pollSeconds": "1",
    }
    for value, target in (("operator", "operator"), ("stage", "stage"), ("environment", "envs")):
        values[f"images.{value}.repository"] = f"docker.io/local/agentrl-{target}"
        values[f"images.{value}.tag"] = "dev"
    told = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    subprocess.run(
        [HELM, "upgrade", "--install", "agentrl", ROOT / "helm/agentrl", "-n", NAMESPACE,
         "--wait", "--timeout", "180s", *told],
        env={**os.environ, "KUBECONFIG": str(there.kubeconfig)},
        timeout=240,
        check=True,
    )  # fmt: skip
    there.kubectl("delete", "agentrlruns", "--all", "--timeout=100s")
    return there


@pytest.fixture(scope="session")
def calm(installed: Installed) -> tuple[str, str]:
    """A run that nothing happened to, rollout and update apart: its name and uid."""
    run = manifest("calm", compute={"placement": "disaggregated"})
    uid = installed.apply(run)
    installed.until_phase("calm", "Succeeded", 900)
    return "calm", uid
