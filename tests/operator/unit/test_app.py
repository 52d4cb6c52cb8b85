"""The start and the heartbeat of the operator."""

import asyncio
import time

import pytest
from virtual_time import virtual_time
from world import World

from agentrl_operator.app import (
    HEARTBEAT_PERIOD_S,
    HEARTBEATS_PER_RELIST,
    send_heartbeats,
    wait_for_api,
)
from agentrl_operator.controller.watches import Relist
from agentrl_operator.errors import KubernetesError
from agentrl_operator.telemetry.metrics import Metrics
from agentrl_operator.telemetry.probes import Health
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp


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
    task = asyncio.create_task(send_heartbeats(relist, health, ready, asyncio.Event()))
    await asyncio.sleep(HEARTBEAT_PERIOD_S / 2)
    age = "agentrl_operator_last_response_age_seconds"
    assert metrics.registry.get_sample_value(age) == float("inf")
    assert str(error) in caplog.text
    await asyncio.sleep(HEARTBEAT_PERIOD_S)
    assert responses == [error, None]
    assert metrics.registry.get_sample_value(age) < float("inf")
    assert not task.done()
    task.cancel()


class NamespacedCluster(MemoryCluster):
    """A cluster that shows the operator the namespaces in which it has a Role."""

    def __init__(self, *readable):
        super().__init__(MemoryKfp())
        self.readable = set(readable)

    async def ping(self, namespace):
        self.check(namespace)

    def list_runs(self, namespace):
        self.check(namespace)
        return super().list_runs(namespace)

    def list_deployments(self, namespace):
        self.check(namespace)
        return super().list_deployments(namespace)

    def check(self, namespace):
        if namespace not in self.readable:
            raise KubernetesError(f"403: {namespace}", status=403, retryable=False)


def relist_of(cluster):
    return Relist(controller=World().controller, cluster=cluster, namespaces=("a", "b"))


@pytest.mark.parametrize(("gone", "left"), [("a", ("b",)), ("b", ("a",))])
async def test_an_operator_starts_though_one_of_its_namespaces_is_gone(gone, left, caplog):
    found = await wait_for_api(relist_of(NamespacedCluster(*left)), asyncio.Event())
    assert found.namespaces == left
    assert f"the runs in {gone} are not operated: 403: {gone}" in caplog.text


@virtual_time
async def test_an_operator_waits_while_it_may_read_no_namespace_at_all():
    cluster, stop = NamespacedCluster(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_api(relist_of(cluster), stop))
    await asyncio.sleep(60)
    assert not waiting.done()
    stop.set()
    assert await waiting is None


@virtual_time
@pytest.mark.parametrize("later", [("a", "b"), ("b",), ("a",)])
async def test_an_operator_ends_to_start_again_when_other_namespaces_may_be_read(later):
    world, cluster = World(), NamespacedCluster("a")
    relist = await wait_for_api(relist_of(cluster), asyncio.Event())
    ready, stop = asyncio.Event(), asyncio.Event()
    ready.set()
    health = Health(time.monotonic, world.controller.metrics)
    task = asyncio.create_task(send_heartbeats(relist, health, ready, stop))
    await asyncio.sleep(1)
    cluster.readable = set(later)
    await asyncio.sleep(HEARTBEAT_PERIOD_S * HEARTBEATS_PER_RELIST)
    assert stop.is_set() == (later != ("a",))
    task.cancel()
