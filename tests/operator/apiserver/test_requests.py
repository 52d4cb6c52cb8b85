"""Single requests of the operator to a real kube-apiserver."""

import asyncio

import pytest
from cluster_runs import MERGE, NAMESPACE, RUNS, manifest
from demo_run import SPEC

from agentrl_operator.errors import KubernetesError, is_quota_used_up


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


QUOTA = f"api/v1/namespaces/{NAMESPACE}/resourcequotas"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "counted", "namespace": NAMESPACE},
    "spec": {"clusterIP": "None", "ports": [{"port": 8080}]},
}


async def test_a_quota_counts_the_creation_of_what_exists_and_not_the_question(server, outside):
    """Why the operator asks whether an object exists before it creates it."""
    hard = {"count/services": "3"}
    quota = {"metadata": {"name": "team"}, "spec": {"hard": hard}}
    await asyncio.to_thread(server.ask, "POST", QUOTA, quota)
    observed = {"status": {"hard": hard, "used": {"count/services": "0"}}}
    await asyncio.to_thread(server.ask, "PATCH", f"{QUOTA}/team/status", observed, MERGE)

    async def used():
        found = await asyncio.to_thread(server.ask, "GET", f"{QUOTA}/team")
        return found["status"]["used"]["count/services"]

    cluster = outside.cluster
    try:
        assert not await cluster.exists(SERVICE)
        while await used() != "1":  # the admission sees the quota a moment later
            await cluster.create(SERVICE)
            path = f"api/v1/namespaces/{NAMESPACE}/services/counted"
            if await used() == "0":
                await asyncio.to_thread(server.ask, "DELETE", path)
        for _ in range(5):
            assert await cluster.exists(SERVICE)
        assert await used() == "1"
        assert [await cluster.create(SERVICE) for _ in range(2)] == [False, False]
        assert await used() == "3"
        with pytest.raises(KubernetesError) as refused:
            await cluster.create(SERVICE)
        assert is_quota_used_up(refused.value)
    finally:
        await asyncio.to_thread(server.ask, "DELETE", f"{QUOTA}/team")
        await cluster.close()
