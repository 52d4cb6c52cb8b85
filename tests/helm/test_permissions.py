"""Roles of the operator and of users."""

from collections.abc import Callable
from typing import Any

import pytest

Manifest = dict[str, Any]
Render = Callable[..., list[Manifest]]
Granted = dict[tuple[str, str], set[str]]

WATCH: Granted = {
    ("agentrl.dev", "agentrlruns"): {"list", "watch", "patch"},
    ("agentrl.dev", "agentrlruns/status"): {"patch"},
    ("", "events"): {"create"},
    ("apps", "deployments"): {"list", "watch"},
}
"""What the operator watches in all namespaces, and says about every run."""
WORK: Granted = {
    ("agentrl.dev", "agentrlruns"): {"delete"},
    ("agentrl.dev", "agentrlruns/finalizers"): {"update"},
    ("", "secrets"): {"create"},
    ("", "services"): {"get", "create"},
    ("apps", "deployments"): {"create", "patch", "delete"},
    ("", "pods"): {"list", "patch"},
    ("autoscaling", "horizontalpodautoscalers"): {"create", "patch", "delete"},
    ("policy", "poddisruptionbudgets"): {"get", "create"},
    ("argoproj.io", "workflows"): {"list", "delete"},
    ("ray.io", "rayclusters"): {"get", "create", "delete"},
    ("agents.x-k8s.io", "sandboxes"): {"list", "create", "delete", "deletecollection"},
}
"""What it does in the namespaces of runs."""
OWN_LEASE: Granted = {("coordination.k8s.io", "leases"): {"get", "update", "create"}}
EVERYWHERE: Granted = {
    ("apiextensions.k8s.io", "customresourcedefinitions"): {"list", "watch"},
}
MULTI_USER: Granted = {
    ("pipelines.kubeflow.org", "experiments"): {"list", "create", "delete"},
    ("pipelines.kubeflow.org", "runs"): {"get", "list", "create", "terminate", "delete"},
}
KUEUE_WATCH: Granted = {("kueue.x-k8s.io", "workloads"): {"list", "watch"}}
KUEUE_WORK: Granted = {
    ("kueue.x-k8s.io", "workloads"): {"get", "create", "patch", "delete"},
    ("kueue.x-k8s.io", "workloads/status"): {"patch"},
}
KUEUE_EVERYWHERE: Granted = {
    ("kueue.x-k8s.io", "resourceflavors"): {"get"},
    ("kueue.x-k8s.io", "workloadpriorityclasses"): {"get"},
}


def together(*tables: Granted) -> Granted:
    """The permissions of several tables."""
    whole: Granted = {}
    for table in tables:
        for resource, verbs in table.items():
            whole[resource] = whole.get(resource, set()) | verbs
    return whole


def granted(role: Manifest) -> Granted:
    table: Granted = {}
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                table.setdefault((group, resource), set()).update(rule["verbs"])
    return table


def roles(objects: list[Manifest]) -> list[Manifest]:
    return [one for one in objects if one["kind"] in ("Role", "ClusterRole")]


def operator_roles(render: Render, **values: Any) -> list[tuple[str, str | None, Granted]]:
    """Kind, namespace and permissions of the operator's roles."""
    return [
        (one["kind"], one["metadata"].get("namespace"), granted(one))
        for one in roles(render(values | {"rbac": {"aggregate": False}}))
    ]


def test_it_watches_all_namespaces_and_works_in_that_of_a_single_user_kfp(render: Render) -> None:
    lease = ("Role", "kubeflow", OWN_LEASE)
    assert operator_roles(render) == [
        ("ClusterRole", None, together(WATCH, EVERYWHERE)),
        lease,
        ("Role", "kubeflow", WORK),
    ]
    assert operator_roles(render, kueue={"admission": "run"}) == [
        ("ClusterRole", None, together(WATCH, KUEUE_WATCH, EVERYWHERE, KUEUE_EVERYWHERE)),
        lease,
        ("Role", "kubeflow", together(WORK, KUEUE_WORK)),
    ]


def test_with_multi_user_kfp_it_works_in_all_namespaces_and_calls_kfp(render: Render) -> None:
    assert operator_roles(render, kfp={"multiUser": True}) == [
        ("ClusterRole", None, together(WATCH, WORK, EVERYWHERE, MULTI_USER)),
        ("Role", "kubeflow", OWN_LEASE),
    ]


def test_with_watched_namespaces_it_has_roles_there(render: Render) -> None:
    assert operator_roles(render, watchNamespaces=["a", "b"]) == [
        ("Role", "kubeflow", OWN_LEASE),
        ("Role", "a", together(WATCH, WORK)),
        ("Role", "b", together(WATCH, WORK)),
    ]
    assert operator_roles(render, watchNamespaces=["a"], kueue={"admission": "run"}) == [
        ("ClusterRole", None, KUEUE_EVERYWHERE),
        ("Role", "kubeflow", OWN_LEASE),
        ("Role", "a", together(WATCH, WORK, KUEUE_WATCH, KUEUE_WORK)),
    ]


@pytest.mark.parametrize("namespaces", [[], ["a", "b"]])
def test_every_role_of_the_operator_is_bound_to_its_service_account(
    render: Render, namespaces: list[str]
) -> None:
    objects = render({"watchNamespaces": namespaces, "rbac": {"aggregate": False}})
    bindings = [one for one in objects if one["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert {
        (one["roleRef"]["kind"], one["metadata"].get("namespace"), one["roleRef"]["name"])
        for one in bindings
    } == {
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"])
        for one in roles(objects)
    }
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
