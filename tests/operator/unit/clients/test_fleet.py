"""The load of environment servers, and the objects that scale them."""

import pytest
from recorded_requests import RecordedRequests

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_operator.clients.fleet import FleetApi, ServerPod
from agentrl_operator.errors import ServerMetricsError

POD = ServerPod(name="a", environment="walk", address="10.0.0.1")


def pod(name, *, ready="True", ip="10.0.0.1", **metadata):
    labels = {"agentrl.dev/environment": "walk"}
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {
        "metadata": {"name": name, "labels": labels, **metadata},
        "status": status | ({"podIP": ip} if ip else {}),
    }


async def test_pods_that_start_or_stop_are_left_out():
    pods = [
        pod("ready"),
        pod("starting", ready="False"),
        pod("pending", ip=None),
        pod("stopping", deletionTimestamp="2026-11-22T12:00:00Z"),
    ]
    api = RecordedRequests({("GET", "api/v1/namespaces/kubeflow/pods"): {"items": pods}})
    assert [one.name for one in await FleetApi(api).ready_pods("kubeflow", "u")] == ["ready"]


async def test_sessions_are_read_from_the_metrics_of_a_real_server_without_a_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(capacity=7))
    with running(app) as url:
        fleet = FleetApi(RecordedRequests({}), lambda address: url)
        assert await fleet.sessions(POD) == (0, 7)
        await fleet.close()
        wrong = FleetApi(RecordedRequests({}), lambda address: f"{url}/nothing")
        with pytest.raises(ServerMetricsError, match="/metrics of a"):
            await wrong.sessions(POD)
        await wrong.close()


@pytest.mark.parametrize(
    ("version", "names", "served"),
    [
        ("v1beta2", ["pods/agentrl_env_sessions_share"], True),
        ("v1beta1", ["pods/agentrl_env_sessions_share", "pods/other"], True),
        ("v1beta1", ["namespaces/agentrl_env_sessions_share"], False),
        ("v1", ["pods/agentrl_env_sessions_share"], False),
    ],
)
async def test_metric_is_looked_for_among_those_that_the_cluster_serves(version, names, served):
    listed = {"resources": [{"name": name} for name in names]}
    api = RecordedRequests({("GET", f"apis/custom.metrics.k8s.io/{version}"): listed})
    assert await FleetApi(api).serves_metric("agentrl_env_sessions_share") is served
