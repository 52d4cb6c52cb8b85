"""`agentrl status` with a stub of the Kubernetes API."""

import io
import json
from datetime import UTC, datetime

import pytest
import yaml
from kubernetes_stub import MANIFEST, Api, agentrl, cluster, status

from agentrl_envs.output.console import Console
from agentrl_pipelines.cli.commands.status import age, parts, turns_text

RUNNING = {
    "metadata": {
        "name": "first-try", "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": yaml.safe_load(MANIFEST)["spec"],
    "status": status(
        "Running", 1, 25, success="40% [35, 45]", attempt=1,
        message="phase 2 is \x1b[31mplayed\x1b[0m",
        startTime="2026-01-01T00:01:00Z", kfpRun="abc", kfpUrl="http://kfp/#/runs/abc",
        mlflowUrl="http://mlflow/#/1", bestCheckpoint="s3://agentrl/lab/checkpoints/000020",
        cost={"tokens": 1234567, "environmentSeconds": 83, "deviceSeconds": 3723},
        conditions=[
            {"type": "Progressing", "status": "True", "reason": "Running", "message": "it runs",
             "lastTransitionTime": "2026-01-01T01:59:15Z"},
        ],
    ),
}  # fmt: skip


def test_status_shows_progress_success_and_conditions():
    console = Console(width=100, record=True, file=io.StringIO())
    for part in parts(RUNNING, datetime(2026, 1, 1, 2, tzinfo=UTC), 100):
        console.print(part)
    text = console.export_text()
    for expected in (
        "first-try in namespace lab",
        "Running (restarted 1 time)",
        "25 of 50",
        "40% [35, 45]",
        "s3://agentrl/lab/checkpoints/000020",
        "http://kfp/#/runs/abc",
        "http://mlflow/#/1",
        "1,234,567 tokens, environments 1:23, devices 1:02:03",
        "created 2h ago, started 1h59m ago",
    ):
        assert expected in text
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["✓", "1", "3", "20"] in rows
    assert ["▶", "2", "8", "30"] in rows
    assert ["Progressing", "True", "Running", "45s", "it", "runs"] in rows


@pytest.mark.parametrize("width", [60, 79, 80, 100])
def test_the_messages_of_conditions_are_whole_in_a_narrow_terminal(width):
    message = "environment babyai has 0 of 1 servers; pull of image ghcr.io/x/y failed"
    waiting = {
        "type": "EnvironmentsReady",
        "status": "False",
        "reason": "EnvironmentsStarting",
        "message": message,
        "lastTransitionTime": "2026-01-01T01:59:15Z",
    }
    run = RUNNING | {"status": RUNNING["status"] | {"conditions": [waiting]}}
    console = Console(width=width, record=True, file=io.StringIO())
    *_, conditions = parts(run, datetime(2026, 1, 1, 2, tzinfo=UTC), width)
    console.print(conditions)
    text = console.export_text()
    words = text.split()
    assert {"EnvironmentsReady", "False", "EnvironmentsStarting", "45s"} <= set(words)
    assert [word for word in words if word in message.split()] == message.split()
    assert "…" not in text


def test_the_turns_of_a_phase_are_a_range_if_environments_have_limits_of_their_own():
    phases = [{"maxTurns": 3, "iterations": 20}, {"maxTurns": 8, "iterations": 30}]
    environments = [{"name": "maze"}, {"name": "shop", "maxTurns": [5]}]
    spec = {"horizon": {"phases": phases}, "environments": environments}
    assert [turns_text(spec, phase) for phase in (0, 1)] == ["3 to 5", "5 to 8"]
    assert turns_text(spec | {"environments": environments[:1]}, 1) == "8"


def test_a_run_without_status_is_pending(tmp_path, monkeypatch, manifest):
    with cluster(tmp_path, monkeypatch, Api()):
        agentrl("submit", manifest)
        done = agentrl("status", "first-try")
        assert json.loads(agentrl("status", "first-try", "-o", "json").stdout)["spec"]
    assert done.exit_code == 0
    assert "Pending" in done.stdout


def test_the_error_for_a_missing_run_names_the_namespace(tmp_path, monkeypatch):
    with cluster(tmp_path, monkeypatch, Api()):
        done = agentrl("status", "first-try")
    assert done.exit_code == 1
    assert done.stderr == (
        "error: first-try: no such run in namespace lab; choose another with -n\n"
    )


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-01-01T00:00:45+00:00", "45s"),
        ("2026-01-01T00:12:10+00:00", "12m"),
        ("2026-01-01T03:20:00+00:00", "3h20m"),
        ("2026-01-03T04:00:00+00:00", "2d4h"),
        ("2025-12-31T00:00:00+00:00", "0s"),
    ],
)
def test_an_age_has_the_format_of_kubectl(now, expected):
    assert age("2026-01-01T00:00:00Z", datetime.fromisoformat(now)) == expected
