"""The Kubeflow Pipelines release of the local cluster."""

from pathlib import Path

import pytest

from cluster.services.kfp_release import BUILT, PROGRAMS, select
from cluster.settings import ClusterError


def folder(place: Path) -> Path:
    """A folder with every file of a release."""
    for name in ("bin", "config", "manifests/kfp", "manifests/argo-crds"):
        (place / name).mkdir(parents=True)
    for name in (*(f"bin/{program}" for program in PROGRAMS), "argo.yaml"):
        (place / name).touch()
    return place


def test_default_is_the_release_that_is_built_here() -> None:
    assert select({}) is BUILT
    assert select({"AGENTRL_KFP": ""}) is BUILT


def test_release_in_a_folder_runs_without_root_under_pod_security(tmp_path: Path) -> None:
    release = select({"AGENTRL_KFP": str(folder(tmp_path))})
    release.check()
    assert release.programs == tmp_path / "bin"
    assert (BUILT.user, release.user) == ("", "65532")
    assert release.labels == ("pod-security.kubernetes.io/enforce=baseline",)


def test_check_names_missing_files(tmp_path: Path) -> None:
    release = select({"AGENTRL_KFP": str(folder(tmp_path))})
    (tmp_path / "bin/argoexec").unlink()
    with pytest.raises(ClusterError, match=f"missing files .*: {tmp_path}/bin/argoexec$"):
        release.check()
