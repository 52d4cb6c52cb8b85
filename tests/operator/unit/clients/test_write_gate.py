import asyncio

import pytest
from virtual_time import virtual_time

from agentrl_operator.api.kfp_run import Submission
from agentrl_operator.clients.kfp import KfpApi
from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.clients.mlflow import MlflowApi
from agentrl_operator.clients.write_gate import WriteGate, clock
from agentrl_operator.errors import KubernetesError, NotLeaderError
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp

NOWHERE = "http://127.0.0.1:9"


def test_the_gate_is_open_without_a_limit_until_one_is_set():
    now = 100.0
    gate = WriteGate(lambda: now)
    assert gate.is_open
    gate.expires_at = 110.0
    now = 109.9
    assert gate.is_open
    now = 110.0
    assert not gate.is_open


def test_its_clock_moves_forward():
    before = clock()
    assert 0.0 <= clock() - before < 60.0


def test_a_closed_gate_refuses_writes():
    gate = WriteGate(lambda: 100.0)
    gate.expires_at = 100.0
    with (
        pytest.raises(NotLeaderError, match="KFP: POST runs: not sent"),
        gate.write("KFP: POST runs"),
    ):
        raise AssertionError("sent")


@virtual_time
async def test_closing_waits_for_the_responses_to_writes_in_flight():
    gate, answered = WriteGate(), asyncio.Event()

    async def write():
        with gate.write("a"):
            await answered.wait()

    writes = [asyncio.create_task(write()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not await gate.close(10)
    closing = asyncio.create_task(gate.close(10))
    await asyncio.sleep(0)
    assert not closing.done()
    answered.set()
    assert await closing
    await asyncio.gather(*writes)
    assert await gate.close(0.0)


async def test_every_client_passes_the_gate_before_it_writes():
    """Nothing is sent: nobody listens at that address, so a request would raise another error."""
    gate = WriteGate()
    gate.expires_at = 0.0

    def no_login():
        raise KubernetesError("sent")

    kubernetes = KubernetesApi(no_login, gate=gate)
    kfp = KfpApi(NOWHERE, MemoryCluster(MemoryKfp()), gate=gate)
    submission = Submission(
        run_id="1",
        name="a",
        experiment="b",
        namespace="c",
        pipeline_spec={},
        parameters={},
        first=True,
    )
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "a", "name": "b"}}
    for write in (
        kubernetes.create(manifest),
        kubernetes.delete_deployment("a", "b"),
        kfp.start_run(submission),
        MlflowApi(gate=gate).finish_run(NOWHERE, "a", "KILLED"),
    ):
        with pytest.raises((NotLeaderError, KubernetesError)) as caught:
            await write
        assert type(caught.value) is NotLeaderError
    with pytest.raises(KubernetesError, match="sent"):
        await kubernetes.ping("a")
