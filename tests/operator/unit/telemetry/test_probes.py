import json
import socket
import time

import aiohttp
import pytest
from prometheus_client import generate_latest

from agentrl_operator.telemetry.metrics import Metrics
from agentrl_operator.telemetry.probes import Health, probe_server


async def get(port, path, host="127.0.0.1"):
    url = f"http://{host}:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_readyz_needs_established_watches_and_an_answer_of_kubernetes():
    metrics = Metrics()
    health = Health(lambda: time.monotonic() - 3, metrics)
    async with probe_server(health, "127.0.0.1", 0) as port:
        assert (await get(port, "/healthz"))[0] == 200
        assert (await get(port, "/readyz"))[0] == 503
        health.watching = True
        assert (await get(port, "/readyz"))[0] == 503
        health.record_response()
        status, page = await get(port, "/readyz")

    content = json.loads(page)
    assert (status, content.pop("ready")) == (200, True)
    assert content.keys() == {"lastEventAgeSeconds", "lastResponseAgeSeconds"}
    assert content["lastEventAgeSeconds"] >= 3.0
    assert content["lastResponseAgeSeconds"] >= 0.0


async def test_an_operator_on_standby_is_ready_and_names_the_leader():
    metrics = Metrics()
    health = Health(time.monotonic, metrics)
    async with probe_server(health, "127.0.0.1", 0) as port:
        health.set_standby("agentrl-7d9f_0a1b2c3d")
        status, page = await get(port, "/readyz")
        assert status == 200
        assert '"leader": "agentrl-7d9f_0a1b2c3d"' in page
        assert "agentrl_operator_leader 0.0" in (await get(port, "/metrics"))[1]
        health.set_leading()
        status, page = await get(port, "/readyz")
        assert status == 503
        assert '"leader"' not in page
        assert "agentrl_operator_leader 1.0" in (await get(port, "/metrics"))[1]


async def test_metrics_count_runs_by_state():
    metrics = Metrics()
    metrics.observe_runs(
        lambda: ["Running", "Running", "Failed"], lambda: ["Running", "KfpRefused"]
    )
    metrics.reconciles.labels("success").inc()
    async with probe_server(Health(time.monotonic, metrics), "127.0.0.1", 0) as port:
        _, page = await get(port, "/metrics")

    assert 'agentrl_runs{state="Running"} 2.0' in page
    assert 'agentrl_runs{state="Succeeded"} 0.0' in page
    assert 'agentrl_runs_blocked{reason="KfpRefused"} 1.0' in page
    assert 'agentrl_operator_reconcile_total{result="success"} 1.0' in page
    assert "agentrl_operator_last_response_age_seconds +Inf" in page


async def test_counters_that_alerts_watch_begin_at_zero_and_not_with_the_first_event():
    page = generate_latest(Metrics().registry).decode()
    for counter in (
        'agentrl_operator_reconcile_total{result="internal_error"}',
        'agentrl_operator_dependency_errors_total{dependency="run_store"}',
        'agentrl_runs_finished_total{state="Failed"}',
    ):
        assert f"{counter} 0.0" in page


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
async def test_probes_of_pods_with_addresses_of_either_family_are_answered():
    health = Health(time.monotonic, Metrics())
    async with probe_server(health, "::", 0) as port:
        assert (await get(port, "/healthz"))[0] == 200
        assert (await get(port, "/healthz", "[::1]"))[0] == 200
