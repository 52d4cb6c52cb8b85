import json
import time

import aiohttp

from agentrl_operator.telemetry.metrics import Metrics
from agentrl_operator.telemetry.probes import Health, probed


async def asked(port, path):
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_ready_means_that_the_watches_run_and_kubernetes_answers():
    metrics = Metrics()
    health = Health(lambda: time.monotonic() - 3, metrics)
    async with probed(health, "127.0.0.1", 0) as port:
        assert (await asked(port, "/healthz"))[0] == 200
        assert (await asked(port, "/readyz"))[0] == 503
        health.started = True
        assert (await asked(port, "/readyz"))[0] == 503
        health.answered()
        status, page = await asked(port, "/readyz")

    said = json.loads(page)
    assert (status, said.pop("ready")) == (200, True)
    assert said.keys() == {"lastEventAgeSeconds", "lastAnswerAgeSeconds"}
    assert said["lastEventAgeSeconds"] >= 3.0
    assert said["lastAnswerAgeSeconds"] >= 0.0


async def test_one_that_waits_for_the_lease_is_ready_and_says_who_holds_it():
    metrics = Metrics()
    health = Health(time.monotonic, metrics)
    async with probed(health, "127.0.0.1", 0) as port:
        health.waits("agentrl-7d9f_0a1b2c3d")
        status, page = await asked(port, "/readyz")
        assert status == 200
        assert '"waitsFor": "the lease, which agentrl-7d9f_0a1b2c3d holds"' in page
        assert "agentrl_operator_acts 0.0" in (await asked(port, "/metrics"))[1]
        health.acts()
        status, page = await asked(port, "/readyz")
        assert status == 503
        assert "waitsFor" not in page
        assert "agentrl_operator_acts 1.0" in (await asked(port, "/metrics"))[1]


async def test_metrics_count_runs_by_state():
    metrics = Metrics()
    metrics.runs_by_state(lambda: ["Running", "Running", "Failed"])
    metrics.reconciles.labels("done").inc()
    async with probed(Health(time.monotonic, metrics), "127.0.0.1", 0) as port:
        _, page = await asked(port, "/metrics")

    assert 'agentrl_runs{state="Running"} 2.0' in page
    assert 'agentrl_runs{state="Succeeded"} 0.0' in page
    assert 'agentrl_operator_reconciles_total{result="done"} 1.0' in page
    assert "agentrl_operator_last_answer_age_seconds +Inf" in page
