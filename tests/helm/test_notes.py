"""The notes that `helm install` prints."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rendered import CHART, Manifest, Template


@pytest.fixture
def notes(template: Template, tmp_path: Path) -> Callable[..., str]:
    """Function that renders NOTES.txt: in a manifest, because `helm template` does not print it."""
    chart = tmp_path / "agentrl"
    shutil.copytree(CHART, chart)
    shutil.copy(chart / "templates" / "NOTES.txt", chart / "notes.txt")
    shown = 'notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    (chart / "templates" / "shown.yaml").write_text(shown)

    def told(values: Manifest | None = None, namespace: str = "kubeflow") -> str:
        ended = template(
            values, "--show-only", "templates/shown.yaml", chart=chart, namespace=namespace
        )
        assert ended.returncode == 0, ended.stderr
        (shown,) = (one for one in yaml.safe_load_all(ended.stdout) if one)
        return str(shown["notes"])

    return told


def test_the_notes_contain_the_next_three_commands(notes: Callable[..., str]) -> None:
    assert [line.strip() for line in notes().splitlines() if line.startswith("  kubectl")] == [
        "kubectl -n kubeflow rollout status deployment/agentrl",
        "kubectl -n kubeflow apply -f examples/babyai.yaml",
        "kubectl -n kubeflow get arl --watch",
    ]


def test_the_notes_say_when_a_secret_is_needed_elsewhere(notes: Callable[..., str]) -> None:
    assert "Secret" not in notes()
    told = notes({"minio": {"enabled": True}}, namespace="agents")
    assert "The Secret agentrl-minio must be in agents and in kubeflow." in told


def test_the_notes_name_the_service_accounts_that_need_a_role(notes: Callable[..., str]) -> None:
    storage = {"url": "s3://models", "region": "eu-west-1", "workloadIdentity": True}
    told = notes({"storage": storage}, namespace="agents")
    assert "roles of service accounts: agentrl of the operator" in told
    assert "Secret" not in told


def test_the_notes_contain_a_placeholder_for_the_profile_of_a_multi_user_kfp(
    notes: Callable[..., str],
) -> None:
    assert "kubectl -n PROFILE apply -f examples/babyai.yaml" in notes({"kfp": {"multiUser": True}})


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ({"kfp": {"multiUser": True}}, True),
        ({"kfp": {"multiUser": True}, "watchNamespaces": ["team-a"]}, False),
        ({"kfp": {"multiUser": True}, "networkPolicy": {"enabled": False}}, False),
        ({}, False),
    ],
)
def test_the_notes_warn_where_the_pods_of_runs_get_no_network_policy(
    notes: Callable[..., str], values: Manifest, warned: bool
) -> None:
    told = " ".join(notes(values).split())
    assert ("WARNING: no NetworkPolicy is created for the pods of runs" in told) == warned
    assert ('docs/operations.md, "Network policies of profiles"' in told) == warned
