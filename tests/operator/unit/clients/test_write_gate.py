import asyncio

import pytest
from timeless import timeless

from agentrl_operator.clients.kfp import KfpApi, Submission
from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.clients.mlflow import MlflowApi
from agentrl_operator.clients.write_gate import Term, clock
from agentrl_operator.errors import KubernetesError, LeaseError
from agentrl_operator.testing.memory import MemoryCluster, MemoryKfp

NOWHERE = "http://127.0.0.1:9"


def test_a_term_has_no_end_until_it_is_given_one():
    now = 100.0
    term = Term(lambda: now)
    assert term.open
    term.until = 110.0
    now = 109.9
    assert term.open
    now = 110.0
    assert not term.open


def test_its_clock_goes_forward():
    before = clock()
    assert 0.0 <= clock() - before < 60.0


def test_outside_of_it_no_change_begins():
    term = Term(lambda: 100.0)
    term.until = 100.0
    with (
        pytest.raises(LeaseError, match="KFP: POST runs: not asked for"),
        term.change("KFP: POST runs"),
    ):
        raise AssertionError("begun")


@timeless
async def test_closing_waits_for_the_answers_to_what_is_under_way():
    term, answered = Term(), asyncio.Event()

    async def change():
        with term.change("a"):
            await answered.wait()

    changes = [asyncio.create_task(change()) for _ in range(2)]
    await asyncio.sleep(0)
    assert not await term.close(10)
    closing = asyncio.create_task(term.close(10))
    await asyncio.sleep(0)
    assert not closing.done()
    answered.set()
    assert await closing
    await asyncio.gather(*changes)
    assert await term.close(0.0)


async def test_whoever_changes_something_asks_the_term_first():
    """Nothing is sent: nobody listens there, and the error would be another one."""
    term = Term()
    term.until = 0.0

    def no_login():
        raise KubernetesError("sent")

    kubernetes = KubernetesApi(no_login, term=term)
    kfp = KfpApi(NOWHERE, MemoryCluster(MemoryKfp()), term=term)
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
    for change in (
        kubernetes.create(manifest),
        kubernetes.remove_deployment("a", "b"),
        kfp.start(submission),
        MlflowApi(term=term).close_run(NOWHERE, "a", "KILLED"),
    ):
        with pytest.raises((LeaseError, KubernetesError)) as caught:
            await change
        assert type(caught.value) is LeaseError
    with pytest.raises(KubernetesError, match="sent"):
        await kubernetes.answers("a")
