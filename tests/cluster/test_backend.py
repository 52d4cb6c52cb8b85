"""Which Kubeflow Pipelines the cluster of cluster.py runs."""

from pathlib import Path

import pytest
from backend import BUILT, PROGRAMS, chosen
from place import ClusterError


def folder(place: Path) -> Path:
    """One that holds a Kubeflow Pipelines."""
    for name in ("bin", "config", "manifests/kfp", "manifests/argo-crds"):
        (place / name).mkdir(parents=True)
    for name in (*(f"bin/{program}" for program in PROGRAMS), "argo.yaml"):
        (place / name).touch()
    return place


def test_without_a_folder_it_is_the_one_that_is_built_here() -> None:
    assert chosen({}) is BUILT
    assert chosen({"AGENTRL_KFP": ""}) is BUILT


def test_a_given_one_runs_without_root_under_pod_security(tmp_path: Path) -> None:
    given = chosen({"AGENTRL_KFP": str(folder(tmp_path))})
    given.check()
    assert given.programs == tmp_path / "bin"
    assert (BUILT.user, given.user) == ("", "65532")
    assert given.labels == ("pod-security.kubernetes.io/enforce=baseline",)


def test_what_a_given_one_lacks_is_named(tmp_path: Path) -> None:
    given = chosen({"AGENTRL_KFP": str(folder(tmp_path))})
    (tmp_path / "bin/argoexec").unlink()
    with pytest.raises(ClusterError, match=f"are not there: {tmp_path}/bin/argoexec$"):
        given.check()
