"""The plain manifests in helm/plain."""

import shutil
import subprocess

import pytest
import yaml
from rendered import ROOT


def test_the_plain_manifests_are_up_to_date_with_the_chart(helm: str) -> None:
    plain = ROOT / "helm" / "plain"
    made = subprocess.run(
        [str(plain / "render.sh")],
        env={"HELM": helm, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    kept = (plain / "agentrl.yaml").read_text()
    assert sorted(map(str, yaml.safe_load_all(kept))) == sorted(map(str, yaml.safe_load_all(made)))


def test_kustomize_builds_the_plain_manifests() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not on PATH")
    built = subprocess.run(
        [kubectl, "kustomize", str(ROOT / "helm" / "plain")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= {
        one["kind"] for one in yaml.safe_load_all(built)
    }
