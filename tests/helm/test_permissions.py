"""Roles of the operator and of users."""

from collections.abc import Callable
from typing import Any

import pytest

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Granted = dict[tuple[str, str], set[str]]

OPERATOR: Granted = {
    ("agentrl.dev", "agentrlruns"): {"list", "watch", "patch", "delete"},
    ("agentrl.dev", "agentrlruns/status"): {"patch"},
    ("agentrl.dev", "agentrlruns/finalizers"): {"update"},
    ("", "secrets"): {"create"},
    ("", "services"): {"create"},
    ("apps", "deployments"): {"list", "watch", "create", "patch", "delete"},
    ("", "pods"): {"list", "patch"},
    ("autoscaling", "horizontalpodautoscalers"): {"create", "patch", "delete"},
    ("policy", "poddisruptionbudgets"): {"create"},
    ("", "events"): {"create"},
    ("argoproj.io", "workflows"): {"list", "delete"},
    ("ray.io", "rayclusters"): {"get", "create", "delete"},
    ("agents.x-k8s.io", "sandboxes"): {"list", "create", "delete", "deletecollection"},
}
OWN_LEASE: Granted = {("coordination.k8s.io", "leases"): {"get", "update", "create"}}
EVERYWHERE: Granted = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): {"list", "watch"},
}
MULTI_USER: Granted = {
    ("pipelines.kubeflow.org", "experiments"): {"list", "create", "delete"},
    ("pipelines.kubeflow.org", "runs"): {"get", "list", "create", "terminate", "delete"},
}

KUEUE: Granted = {
    ("kueue.x-k8s.io", "workloads"): {"get", "list", "watch", "create", "patch", "delete"},
    ("kueue.x-k8s.io", "workloads/status"): {"patch"},
}
KUEUE_EVERYWHERE: Granted = {
    ("kueue.x-k8s.io", "resourceflavors"): {"get"},
    ("kueue.x-k8s.io", "workloadpriorityclasses"): {"get"},
}


def granted(role: Manifest) -> Granted:
    table: Granted = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                table.setdefault((group, resource), set()).update(rule["verbs"])
    return table


def roles(objects: list[Manifest]) -> list[Manifest]:
    return [one for one in objects if one["kind"] in ("Role", "ClusterRole")]


def test_the_operator_has_exactly_the_permissions_that_it_uses(render: Render) -> None:
    (role,) = (one for one in roles(render()) if one["metadata"]["name"] == "agentrl-kubeflow")
    assert granted(role) == OPERATOR | EVERYWHERE


def test_with_multi_user_kfp_it_may_also_call_kubeflow_pipelines(render: Render) -> None:
    (role,) = (
        one
        for one in roles(render({"kfp": {"multiUser": True}}))
        if one["metadata"]["name"] == "agentrl-kubeflow"
    )
    assert granted(role) == OPERATOR | EVERYWHERE | MULTI_USER


def test_with_admission_of_whole_runs_it_may_manage_workloads(render: Render) -> None:
    objects = render({"kueue": {"admission": "run"}})
    (role,) = (one for one in roles(objects) if one["metadata"]["name"] == "agentrl-kubeflow")
    assert granted(role) == OPERATOR | KUEUE | EVERYWHERE | KUEUE_EVERYWHERE


def test_a_cluster_role_reads_only_the_cluster_scoped_objects_of_kueue(
    render: Render,
) -> None:
    objects = render(
        {"kueue": {"admission": "run"}, "watchNamespaces": ["a"], "rbac": {"aggregate": False}}
    )
    own, role, cluster_role = sorted(
        roles(objects), key=lambda one: (one["kind"], one["metadata"]["name"]), reverse=True
    )
    assert (own["kind"], granted(own)) == ("Role", OWN_LEASE)
    assert (role["kind"], granted(role)) == ("Role", OPERATOR | KUEUE)
    assert (cluster_role["kind"], granted(cluster_role)) == ("ClusterRole", KUEUE_EVERYWHERE)
    (binding,) = (one for one in objects if one["kind"] == "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == cluster_role["metadata"]["name"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "agentrl", "namespace": "kubeflow"}
    ]


def test_with_watched_namespaces_it_has_roles_there_and_no_cluster_role(render: Render) -> None:
    objects = render({"watchNamespaces": ["a", "b"], "rbac": {"aggregate": False}})
    assert [
        (one["kind"], one["metadata"]["namespace"], granted(one)) for one in roles(objects)
    ] == [("Role", "kubeflow", OWN_LEASE), ("Role", "a", OPERATOR), ("Role", "b", OPERATOR)]
    assert "ClusterRoleBinding" not in {one["kind"] for one in objects}
    bindings = [one for one in objects if one["kind"] == "RoleBinding"]
    assert [one["metadata"]["namespace"] for one in bindings] == ["kubeflow", "a", "b"]
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "agentrl", "namespace": "kubeflow"}
        ]


@pytest.mark.parametrize("watched", [[], ["agents"], ["kubeflow"]])
def test_it_may_update_only_the_lease_that_it_is_given(render: Render, watched: list[str]) -> None:
    objects = render({"watchNamespaces": watched, "fullnameOverride": "mine"})
    (role,) = (one for one in roles(objects) if one["metadata"]["name"] == "mine-lease")
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "kubeflow")
    assert [(rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]] == [
        (["get", "update"], ["mine"]),
        (["create"], None),
    ]
    (operator,) = (one for one in objects if one["kind"] == "Deployment")
    (container,) = operator["spec"]["template"]["spec"]["containers"]
    assert "--lease=$(POD_NAMESPACE)/mine" in container["args"]
    assert {
        "name": "POD_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
    } in container["env"]


def test_no_rule_has_a_wildcard(render: Render, everything: Manifest) -> None:
    for role in roles(render(everything)):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


@pytest.mark.parametrize(
    ("name", "joins", "may"),
    [
        ("agentrl-kubeflow-viewer", {"view"}, {"get", "list", "watch"}),
        (
            "agentrl-kubeflow-editor",
            {"edit", "admin"},
            {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
        ),
    ],
)
def test_runs_are_part_of_the_default_user_roles(
    render: Render, name: str, joins: set[str], may: set[str]
) -> None:
    (role,) = (one for one in roles(render()) if one["metadata"]["name"] == name)
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    assert {
        label.removeprefix(prefix) for label in role["metadata"]["labels"] if prefix in label
    } == joins
    assert granted(role) == {
        ("agentrl.dev", "agentrlruns"): may,
        ("agentrl.dev", "agentrlruns/status"): {"get"},
    }


def test_roles_can_be_left_out(render: Render) -> None:
    assert roles(render({"rbac": {"create": False, "aggregate": False}})) == []


def test_only_the_operator_mounts_a_service_account_token(
    render: Render, everything: Manifest
) -> None:
    objects = render(everything)
    pods = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in objects
        if one["kind"] == "Deployment"
    }
    pods |= {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Pod"}
    assert {name: pod["automountServiceAccountToken"] for name, pod in pods.items()} == {
        "agentrl": True,
        "agentrl-minio": False,
        "agentrl-mlflow": False,
        "agentrl-test": False,
    }
