import pytest

from agentrl_operator.clients import workflows
from agentrl_operator.clients.workflows import Workflow

REFUSAL = 'pods "demo-1-impl" is forbidden: exceeded quota: compute, requested: pods=1'


def workflow(*nodes, phase="Running"):
    """The body of a Workflow whose nodes have these types, phases and messages."""
    keys = "type", "phase", "message"
    named = {f"demo-{i}": dict(zip(keys, node, strict=True)) for i, node in enumerate(nodes)}
    return {"metadata": {"name": "demo"}, "status": {"phase": phase, "nodes": named}}


def test_a_pod_that_a_quota_does_not_allow_is_the_refusal_of_its_workflow():
    body = workflow(("DAG", "Running", ""), ("Pod", "Pending", REFUSAL))
    assert workflows.read(body) == Workflow(phase="Running", refusal=REFUSAL)


@pytest.mark.parametrize(
    "node",
    [
        ("Pod", "Pending", "Unschedulable: 0/1 nodes are available"),
        ("Pod", "Pending", ""),
        ("Pod", "Running", REFUSAL),  # created in the meantime
        ("Pod", "Failed", REFUSAL),
        ("Retry", "Pending", REFUSAL),
    ],
)
def test_other_nodes_are_no_refusal(node):
    assert workflows.read(workflow(node)) == Workflow(phase="Running")


@pytest.mark.parametrize("body", [{}, {"status": {}}, {"status": {"compressedNodes": "H4sI"}}])
def test_a_workflow_that_argo_has_not_started_has_no_phase(body):
    assert workflows.read(body) == Workflow(phase="")


@pytest.mark.parametrize(
    ("phase", "ended"),
    [("", False), ("Running", False), ("Succeeded", True), ("Failed", True), ("Error", True)],
)
def test_a_workflow_has_ended_by_its_phase(phase, ended):
    assert workflows.read(workflow(phase=phase)).ended is ended
