"""The dashboard and the alerts use only metrics that AgentRL exports."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import generate_latest

from agentrl_envs.server.metrics import Metrics
from agentrl_operator.telemetry.metrics import Metrics as Operator

CHART = Path(__file__).parents[2] / "helm" / "agentrl"
Manifest = dict[str, Any]


def exported() -> set[str]:
    """Names of the metrics that the operator and the environment servers export."""
    operator = Operator()
    operator.observe_runs(lambda: ["Running"], lambda: ["KfpRefused"])
    operator.reconciles.labels("success").inc()
    operator.actions.labels("start_kfp_run").inc()
    operator.dependency_errors.labels("kfp").inc()
    shown = (
        generate_latest(operator.registry) + Metrics(environment="rooms", capacity=1).exposition()
    )
    return set(re.findall(r"^(agentrl_\w+)", shown.decode(), flags=re.MULTILINE))


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bagentrl_\w+", expression))


def dashboard() -> Manifest:
    loaded: Manifest = json.loads((CHART / "files" / "dashboard.json").read_text())
    return loaded


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    for group in alerts["groups"]:
        for rule in group["rules"]:
            yield rule["expr"]


def test_every_expression_uses_exported_metrics() -> None:
    asked = set().union(*(named(one) for one in expressions()))
    assert asked - exported() == set()


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_dashboard_is_rendered_unchanged(
    render: Callable[..., list[Manifest]], everything: Manifest
) -> None:
    (found,) = (one for one in render(everything) if one["metadata"]["name"] == "agentrl-dashboard")
    assert json.loads(found["data"]["agentrl.json"]) == dashboard()
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_every_alert_has_annotations_and_a_row_in_the_docs(
    render: Callable[..., list[Manifest]], everything: Manifest
) -> None:
    (rules,) = (one for one in render(everything) if one["kind"] == "PrometheusRule")
    docs = (CHART.parents[1] / "docs" / "operations.md").read_text()
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert alerts
    for rule in alerts:
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert f"`{rule['alert']}`" in docs


def test_the_alerts_of_a_release_are_about_its_own_operator_and_runs(
    render: Callable[..., list[Manifest]], everything: Manifest
) -> None:
    values = {
        **everything,
        "fullnameOverride": "second",
        "watchNamespaces": ["team-a", "team-b"],
    }
    (rules,) = (one for one in render(values) if one["kind"] == "PrometheusRule")
    told = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    own = r'\{namespace="kubeflow",service="second-metrics"[,}]'
    watched = r'\{namespace=~"team-a\|team-b"\}'
    for expression in told:
        names = re.findall(r"\bagentrl_\w+", expression)
        found = re.findall(rf"\bagentrl_(?:env_\w+{watched}|(?!env_)\w+{own})", expression)
        assert len(found) == len(names), expression
    assert 'absent(agentrl_operator_last_response_age_seconds{namespace="kubeflow",' in told[0]


def test_alerts_on_environments_are_about_all_namespaces_if_the_operator_watches_all(
    render: Callable[..., list[Manifest]], everything: Manifest
) -> None:
    (rules,) = (
        one
        for one in render({**everything, "watchNamespaces": []})
        if one["kind"] == "PrometheusRule"
    )
    (full,) = (
        rule["expr"]
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
        if rule["alert"] == "AgentRLEnvironmentsFull"
    )
    assert 'agentrl_env_sessions_refused_total{namespace=~".+"}[10m]' in full


def test_helm_test_checks_the_readiness_of_the_operator(
    render: Callable[..., list[Manifest]],
) -> None:
    (pod,) = (one for one in render() if one["kind"] == "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    program, address = pod["spec"]["containers"][0]["args"]
    compile(program, "helm test", "exec")
    assert address == "http://agentrl-metrics.kubeflow.svc:8080/readyz"
