"""Requests of the client of agent-sandbox."""

from recorded_requests import RecordedRequests

from agentrl_operator.clients.addons.agent_sandbox import AgentSandboxApi

SANDBOXES = "apis/agents.x-k8s.io/v1beta1/namespaces/kubeflow/sandboxes"
OF_RUN = "?labelSelector=agentrl.dev%2Frun-uid%3Du-1"
BACKGROUND = {"propagationPolicy": "Background"}


async def test_the_sandboxes_of_a_run_are_found_by_its_uid():
    items = [{"metadata": {"name": "demo-code-0"}}]
    request = RecordedRequests({("GET", SANDBOXES): {"items": items}})
    assert await AgentSandboxApi(request).list_sandboxes("kubeflow", "u-1") == items
    assert request.requests == [("GET", SANDBOXES + OF_RUN, None)]


async def test_a_list_that_is_empty_differs_from_an_api_that_is_not_served():
    empty = RecordedRequests({("GET", SANDBOXES): {"kind": "SandboxList", "items": []}})
    assert await AgentSandboxApi(empty).list_sandboxes("kubeflow", "u-1") == []
    assert await AgentSandboxApi(RecordedRequests()).list_sandboxes("kubeflow", "u-1") is None


async def test_sandboxes_are_deleted_with_what_they_own():
    request = RecordedRequests()
    client = AgentSandboxApi(request)
    await client.delete_sandbox("kubeflow", "demo-code-0")
    await client.delete_sandboxes("kubeflow", "u-1")
    assert request.requests == [
        ("DELETE", f"{SANDBOXES}/demo-code-0", BACKGROUND),
        ("DELETE", SANDBOXES + OF_RUN, BACKGROUND),
    ]
