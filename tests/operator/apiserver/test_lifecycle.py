"""A run from its creation to its end on a real kube-apiserver, with everything else in memory."""

import asyncio
import time

from apiserver import PATIENCE_S
from cluster_runs import (
    MERGE,
    NAMESPACE,
    RUNS,
    SERVED,
    Outside,
    condition,
    manifest,
    state,
    until,
    until_gone,
)


async def reasons(server, name):
    """The reasons of the Events of a run."""
    events = await asyncio.to_thread(server.ask, "GET", f"api/v1/namespaces/{NAMESPACE}/events")
    return {one["reason"] for one in events["items"] if one["involvedObject"]["name"] == name}


async def test_a_run_goes_from_created_to_succeeded_and_its_children_are_its_own(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(server.create, manifest("whole", SERVED))
        run = await until(server, "whole", lambda run: state(run) == "Running")
        assert run["metadata"]["finalizers"] == ["agentrl.dev/run"]
        assert run["status"]["observedGeneration"] == 1
        name = f"whole-{made['metadata']['uid'][:8]}"
        for path in (
            f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}-babyai",
            f"api/v1/namespaces/{NAMESPACE}/services/{name}-babyai",
            f"api/v1/namespaces/{NAMESPACE}/secrets/{name}-token",
        ):
            child = await asyncio.to_thread(server.ask, "GET", path)
            owner = child["metadata"]["ownerReferences"][0]
            assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
        seen = [
            body["metadata"]["name"] async for body in outside.cluster.list_deployments(NAMESPACE)
        ]
        assert f"{name}-babyai" in seen

        outside.finish_phase(run, 0, "advance")
        second = await until(
            server,
            "whole",
            lambda run: (
                run["status"]["phaseIndex"] == 1
                and run["status"].get("kfpRun") in outside.kfp.working
            ),
        )
        assert second["status"]["horizon"] == 6
        outside.finish_phase(second, 1, "finish")
        done = await until(server, "whole", lambda run: state(run) == "Succeeded")
        assert condition(done, "Succeeded")["reason"] == "ScheduleDone"
        await until_gone(server, f"apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}-babyai")
        deadline = time.monotonic() + PATIENCE_S  # Events are sent after the status
        while not {"Submitting", "Running", "ScheduleDone"} <= (
            found := await reasons(server, "whole")
        ):
            assert time.monotonic() < deadline, found
            await asyncio.sleep(0.03)


async def test_spec_suspend_stops_and_resumes_a_run(server, outside):
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("paused"))
        run = await until(server, "paused", lambda run: state(run) == "Running")
        path = f"{RUNS}/paused"
        await asyncio.to_thread(server.ask, "PATCH", path, {"spec": {"suspend": True}}, MERGE)
        await until(
            server, "paused", lambda run: condition(run, "Suspended")["reason"] == "Suspending"
        )
        outside.kfp.end(run["status"]["kfpRun"], "FAILED")
        await until(server, "paused", lambda run: state(run) == "Suspended")
        await asyncio.to_thread(server.ask, "PATCH", path, {"spec": {"suspend": False}}, MERGE)
        again = await until(server, "paused", lambda run: state(run) == "Running")
        assert (again["status"]["attempt"], again["status"]["failures"]) == (1, 0)


async def test_a_deleted_run_stops_its_work_and_is_removed(server, outside):
    async with outside.operating():
        await asyncio.to_thread(server.create, manifest("deleted"))
        run = await until(server, "deleted", lambda run: state(run) == "Running")
        kfp_run = run["status"]["kfpRun"]
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/deleted")
        async with asyncio.timeout(PATIENCE_S):
            while outside.kfp.states[kfp_run] != "CANCELING":
                await asyncio.sleep(0.02)
        outside.kfp.end(kfp_run, "FAILED")
        await until_gone(server, f"{RUNS}/deleted")


async def test_an_operator_that_starts_later_continues_existing_runs(server, outside):
    await asyncio.to_thread(server.create, manifest("early"))
    async with outside.operating():
        run = await until(server, "early", lambda run: state(run) == "Running")
    successor = Outside(server)
    successor.kfp, successor.stores = outside.kfp, outside.stores
    successor.finish_phase(run, 0, "finish")
    async with successor.operating():
        await until(server, "early", lambda run: state(run) == "Succeeded")
    started = [one for one in outside.kfp.submitted if one.name.startswith("early:")]
    assert len(started) == 1


async def test_runs_go_on_beside_a_namespace_whose_role_is_gone(server, outside):
    async with outside.operating("deleted-namespace"):
        await asyncio.to_thread(server.create, manifest("beside"))
        await until(server, "beside", lambda run: state(run) == "Running")
