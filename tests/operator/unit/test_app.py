"""The heartbeat of the operator."""

import asyncio
import time

import pytest
from virtual_time import virtual_time
from world import World

from agentrl_operator.app import HEARTBEAT_PERIOD_S, send_heartbeats
from agentrl_operator.controller.watches import Relist
from agentrl_operator.errors import KubernetesError
from agentrl_operator.telemetry.metrics import Metrics
from agentrl_operator.telemetry.probes import Health


@virtual_time
@pytest.mark.parametrize("error", [KubernetesError("Kubernetes: timeout"), ValueError("no name")])
async def test_heartbeats_go_on_after_an_error(error, caplog):
    world, responses = World(), []

    class Cluster:
        """A cluster whose first response is an error."""

        async def ping(self, namespace):
            responses.append(error if not responses else None)
            if responses[-1] is not None:
                raise responses[-1]

    relist = Relist(controller=world.controller, cluster=Cluster())
    metrics, ready = Metrics(), asyncio.Event()
    health = Health(time.monotonic, metrics)
    ready.set()
    task = asyncio.create_task(send_heartbeats(relist, health, ready))
    await asyncio.sleep(HEARTBEAT_PERIOD_S / 2)
    age = "agentrl_operator_last_response_age_seconds"
    assert metrics.registry.get_sample_value(age) == float("inf")
    assert str(error) in caplog.text
    await asyncio.sleep(HEARTBEAT_PERIOD_S)
    assert responses == [error, None]
    assert metrics.registry.get_sample_value(age) < float("inf")
    assert not task.done()
    task.cancel()
