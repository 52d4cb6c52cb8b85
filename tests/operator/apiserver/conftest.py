"""An API server as the operator finds it, and what is around it."""

import pytest
from cluster_runs import NAMESPACE, RULES, Outside


@pytest.fixture(scope="session")
def server(api_server):
    """An API server with the namespace of KFP and the operator's role of the chart."""
    api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    rbac = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    meta = {"metadata": {"name": "operator", "namespace": NAMESPACE}}
    api_server.create(rbac | meta | {"kind": "Role", "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"}
    api_server.create(
        rbac
        | meta
        | {
            "kind": "RoleBinding",
            "roleRef": role,
            "subjects": [{"kind": "User", "name": "operator"}],
        }
    )
    return api_server


@pytest.fixture
def outside(server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(server.operator_kubeconfig))
    return Outside(server)
