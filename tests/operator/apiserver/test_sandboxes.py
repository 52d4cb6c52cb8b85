"""The Sandboxes of a run on a real API server with agent-sandbox's real CRD."""

import asyncio

import pytest
from apiserver import PATIENCE_S, binary
from cluster_runs import MERGE, NAMESPACE, RUNS, condition, manifest, state, until, until_gone
from demo_run import SPEC

CODE = {"name": "code", "builtin": "corridor", "backend": "sandbox", "replicas": 2}
SANDBOXES = f"apis/agents.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/sandboxes"
CRD = "manifests/agent-sandbox-crds/agents.x-k8s.io_sandboxes.yaml"


async def found(server, count):
    """Wait until there are so many Sandboxes."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = await asyncio.to_thread(server.ask, "GET", SANDBOXES)
            if len(listed["items"]) == count:
                return listed["items"]
            await asyncio.sleep(0.1)


async def served(server):
    """Wait until the API server serves the CRD."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            groups = (await asyncio.to_thread(server.ask, "GET", "apis"))["groups"]
            if any(one["name"] == "agents.x-k8s.io" for one in groups):
                return
            await asyncio.sleep(0.1)


@pytest.mark.skipif(binary("agent-sandbox") is None, reason="hack/cluster build agent-sandbox")
async def test_a_run_waits_for_agent_sandbox_then_keeps_its_sandboxes(server, outside):
    async with outside.operating():
        made = await asyncio.to_thread(
            server.create, manifest("boxes", SPEC | {"environments": [CODE]})
        )
        waiting = await until(
            server, "boxes", lambda run: "EnvironmentsReady" in str(run.get("status"))
        )
        assert condition(waiting, "EnvironmentsReady")["reason"] == "AgentSandboxUnavailable"
        message = condition(waiting, "EnvironmentsReady")["message"]
        assert message.startswith("spec.environments[0].backend: sandbox needs agent-sandbox")
        assert not [one for one in outside.kfp.submitted if one.name.startswith("boxes:")]

        await asyncio.to_thread(server.install, binary("agent-sandbox").parents[1] / CRD)
        await served(server)
        boxes = await found(server, 2)
        for box in boxes:
            assert box["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            pod = box["spec"]["podTemplate"]["spec"]
            assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
            ready = {"type": "Ready", "status": "True", "reason": "DependenciesReady"}
            ready |= {"message": "", "lastTransitionTime": "2026-11-21T12:00:00Z"}
            path = f"{SANDBOXES}/{box['metadata']['name']}/status"
            change = {"status": {"conditions": [ready]}}
            await asyncio.to_thread(server.ask, "PATCH", path, change, MERGE)
        running = await until(
            server,
            "boxes",
            lambda run: (
                state(run) == "Running" and condition(run, "EnvironmentsReady")["status"] == "True"
            ),
        )

        change = {"spec": {"environments": [CODE | {"replicas": 1}]}}
        await asyncio.to_thread(server.ask, "PATCH", f"{RUNS}/boxes", change, MERGE)
        (left,) = await found(server, 1)
        assert left["metadata"]["name"].endswith("-code-0")

        await asyncio.to_thread(
            server.ask, "PATCH", f"{RUNS}/boxes", {"spec": {"suspend": True}}, MERGE
        )
        kfp_run = running["status"]["kfpRun"]
        async with asyncio.timeout(PATIENCE_S):
            while outside.kfp.states[kfp_run] != "CANCELING":
                await asyncio.sleep(0.02)
        outside.kfp.end(kfp_run, "FAILED")
        await found(server, 0)
        await asyncio.to_thread(server.ask, "DELETE", f"{RUNS}/boxes")
        await until_gone(server, f"{RUNS}/boxes")
