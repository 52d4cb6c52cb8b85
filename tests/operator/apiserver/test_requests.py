"""Single requests of the operator to a real kube-apiserver."""

import asyncio

import pytest
from cluster_runs import MERGE, NAMESPACE, RUNS, manifest
from demo_run import SPEC

from agentrl_operator.errors import KubernetesError


async def test_a_relist_finds_what_a_watch_missed(server, outside):
    """`runs` lists every run, whatever the watch has shown."""
    for number in range(3):
        await asyncio.to_thread(
            server.create, manifest(f"listed-{number}", SPEC | {"suspend": True})
        )
    names = {body["metadata"]["name"] async for body in outside.cluster.list_runs(NAMESPACE)}
    await outside.cluster.close()

    assert {"listed-0", "listed-1", "listed-2"} <= names
    for number in range(3):
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/listed-{number}")


async def test_no_finalizer_is_added_to_a_deleted_or_changed_run(server, outside):
    body = await asyncio.to_thread(server.create, manifest("fleeting"))
    changed = {"metadata": {"labels": {"a": "b"}}}
    await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/fleeting", changed, MERGE)
    with pytest.raises(KubernetesError) as caught:
        await outside.cluster.add_finalizer(body)
    assert (caught.value.status, caught.value.retryable) == (409, True)
    await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/fleeting")

    assert await outside.cluster.add_finalizer(body) == {}
    await outside.cluster.close()


async def test_a_request_without_permission_fails_with_a_clear_error(server, outside):
    with pytest.raises(KubernetesError, match="forbidden") as caught:
        await outside.cluster.ping("default")
    await outside.cluster.close()

    assert not caught.value.retryable
