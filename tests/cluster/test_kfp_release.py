"""The Kubeflow Pipelines release of the local cluster."""

from pathlib import Path

import pytest

from cluster.services.kfp_release import BUILT, PROGRAMS, select
from cluster.settings import ClusterError


def write_release(folder: Path) -> Path:
    """Create the files of a release in a folder. Returns the folder."""
    for name in ("bin", "config", "manifests/kfp", "manifests/argo-crds"):
        (folder / name).mkdir(parents=True)
    for name in (*(f"bin/{program}" for program in PROGRAMS), "argo.yaml"):
        (folder / name).touch()
    return folder


def test_default_release_is_the_one_that_hack_cluster_builds() -> None:
    assert select({}) is BUILT
    assert select({"AGENTRL_KFP": ""}) is BUILT


def test_release_in_a_folder_runs_without_root_under_pod_security(tmp_path: Path) -> None:
    release = select({"AGENTRL_KFP": str(write_release(tmp_path))})
    release.check()
    assert release.programs == tmp_path / "bin"
    assert (BUILT.user, release.user) == ("", "65532")
    assert release.labels == ("pod-security.kubernetes.io/enforce=baseline",)


def test_check_names_missing_files(tmp_path: Path) -> None:
    release = select({"AGENTRL_KFP": str(write_release(tmp_path))})
    (tmp_path / "bin/argoexec").unlink()
    with pytest.raises(ClusterError, match=f"missing files .*: {tmp_path}/bin/argoexec$"):
        release.check()
