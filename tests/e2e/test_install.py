"""The checks that the documentation recommends after an installation."""

from __future__ import annotations

import os
import subprocess

import pytest
from installed import NAMESPACE, ROOT, Installed

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("uids")]  # those runs start meanwhile


def test_helm_test_succeeds(installed: Installed, helm: str) -> None:
    done = subprocess.run(
        [helm, "test", "agentrl", "-n", NAMESPACE, "--timeout", "600s"],
        capture_output=True,
        text=True,
        timeout=660,
        check=False,
        env={**os.environ, "KUBECONFIG": installed.kubeconfig},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Phase:          Succeeded" in done.stdout


def test_lease_names_an_operator_pod(installed: Installed) -> None:
    def holder() -> bool | None:
        pods = installed.get("pods", "-l", "app.kubernetes.io/component=operator")["items"]
        spec = installed.get("lease", "agentrl")["spec"]
        names = [pod["metadata"]["name"] for pod in pods]
        return spec.get("holderIdentity", "").rpartition("_")[0] in names or None

    installed.until("the operator holds its lease", holder, 300)


def test_api_server_accepts_the_plain_manifests(installed: Installed) -> None:
    output = installed.kubectl("apply", "--dry-run=server", "-k", str(ROOT / "helm/plain"))
    assert "customresourcedefinition.apiextensions.k8s.io/agentrlruns.agentrl.dev" in output
    assert "deployment.apps/agentrl " in output
