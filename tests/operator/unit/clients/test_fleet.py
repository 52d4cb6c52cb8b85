"""The load of environment servers, and the objects that scale them."""

import gzip

import pytest
from recorded_requests import RecordedRequests
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

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


def answering(body, status=200, **headers):
    async def serve(request):
        return Response(body, status, headers)

    return Starlette(routes=[Route("/metrics", serve)])


def counts(sessions, capacity):
    return f"""# HELP agentrl_env_sessions Open sessions
# TYPE agentrl_env_sessions gauge
agentrl_env_sessions{{environment="a }} b"}} {sessions}
agentrl_env_sessions_capacity {capacity} 1732300000000
agentrl_env_sessions_share{{environment="a"}} 0.5
"""


async def sessions_at(url):
    fleet = FleetApi(RecordedRequests({}), lambda address: url)
    try:
        return await fleet.sessions(POD)
    finally:
        await fleet.close()


async def test_only_the_two_counts_are_read_of_what_a_server_shows():
    with running(answering(counts("3.0", "7.0"))) as url:
        assert await sessions_at(url) == (3, 7)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "many", "9" * 1000])
async def test_a_number_that_counts_no_sessions_is_an_error_of_the_server(value):
    with (
        running(answering(counts(value, 7))) as url,
        pytest.raises(ServerMetricsError, match="/metrics of a"),
    ):
        await sessions_at(url)


async def test_a_server_with_megabytes_of_metrics_is_an_error_before_they_are_read():
    async def serve(request):
        async def lines():
            for _ in range(200):
                yield b'other{a="b"} 1\n' * 1000

        return StreamingResponse(lines())

    with (
        running(Starlette(routes=[Route("/metrics", serve)])) as url,
        pytest.raises(ServerMetricsError, match="longer than 262144 bytes"),
    ):
        await sessions_at(url)


async def test_compressed_metrics_are_not_expanded():
    body = gzip.compress(counts(3, 7).encode())
    with (
        running(answering(body, **{"Content-Encoding": "gzip"})) as url,
        pytest.raises(ServerMetricsError, match="agentrl_env_sessions"),
    ):
        await sessions_at(url)


async def test_a_page_of_nested_brackets_is_an_error_of_the_server():
    with (
        running(answering(b"[" * 200_000, 500)) as url,
        pytest.raises(ServerMetricsError, match="500"),
    ):
        await sessions_at(url)


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
