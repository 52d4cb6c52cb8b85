"""The notes that `helm install` prints."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rendered import CHART, Manifest, Template

from agentrl_components.spec.parsing.load import parse


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
    told = notes().splitlines()
    assert [line.strip() for line in told if line.strip().startswith("kubectl")] == [
        "kubectl -n kubeflow rollout status deployment/agentrl",
        "kubectl -n kubeflow apply -f - <<'EOF'",
        "kubectl -n kubeflow get arl --watch",
    ]


def test_the_first_run_in_the_notes_is_complete_and_valid(notes: Callable[..., str]) -> None:
    """Regression: the notes named examples/babyai.yaml, which a packaged chart does not have."""
    _, _, after = notes().partition("<<'EOF'\n")
    manifest, end, _ = after.partition("\nEOF\n")
    assert end
    assert parse(yaml.safe_load(manifest)).metadata.name == "first-run"


def test_the_notes_name_no_file_of_the_repository(notes: Callable[..., str]) -> None:
    for values in ({}, {"kfp": {"multiUser": True}}, {"minio": {"enabled": True}}):
        assert re.findall(r"\b(?:docs|examples|helm|hack)/\S+", notes(values)) == []


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
    assert "kubectl -n PROFILE apply -f -" in notes({"kfp": {"multiUser": True}})


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
    assert ('helm show readme CHART, "Network policies of profiles"' in told) == warned


@pytest.mark.parametrize(
    ("enabled", "warned", "told_of_environments"),
    [
        ((), False, False),
        (("prometheusRule",), True, True),
        (("prometheusRule", "podMonitor"), True, False),
        (("prometheusRule", "serviceMonitor"), False, True),
        (("prometheusRule", "serviceMonitor", "podMonitor"), False, False),
    ],
)
def test_the_notes_warn_of_alerts_on_metrics_that_the_release_lets_nobody_scrape(
    notes: Callable[..., str], enabled: tuple[str, ...], warned: bool, told_of_environments: bool
) -> None:
    metrics = {name: {"enabled": True} for name in enabled}
    told = " ".join(notes({"metrics": metrics, "fullnameOverride": "second"}).split())
    labels = 'labels namespace="kubeflow" and service="second-metrics", which that ServiceMonitor'
    assert (labels in told) == warned
    assert ("AgentRLOperatorAbsent always fires" in told) == warned
    assert ("Alerts on environments fire only if" in told) == told_of_environments
