"""Who owns which part of a run on a real kube-apiserver."""

from cluster_runs import MERGE, NAMESPACE, RUNS, manifest


def test_a_part_of_the_spec_is_owned_as_a_whole(server):
    made = server.create(manifest("owned"))
    server.ask("DELETE", f"{RUNS}/owned")

    (creator,) = made["metadata"]["managedFields"]
    assert creator["fieldsV1"]["f:spec"]["f:algorithm"] == {}
    assert creator["fieldsV1"]["f:spec"]["f:suspend"] == {}


def test_another_controller_can_own_a_condition_of_its_own(server):
    """The list of conditions is a map by type, as in Kubernetes' own resources: a server-side apply
    of one condition leaves the others and the rest of the status alone."""

    def condition(kind):
        return {
            "type": kind,
            "status": "True",
            "reason": "Checked",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }

    server.create(manifest("shared"))
    path = f"{RUNS}/shared"
    status = {"state": "Running", "conditions": [condition("Accepted")]}
    server.ask("PATCH", f"{path}/status", {"status": status}, MERGE)
    identity = {"apiVersion": "agentrl.dev/v1alpha1", "kind": "AgentRLRun"}
    applied = identity | {
        "metadata": {"name": "shared", "namespace": NAMESPACE},
        "status": {"conditions": [condition("Audited")]},
    }
    apply = "application/apply-patch+yaml"
    server.ask("PATCH", f"{path}/status?fieldManager=auditor", applied, apply)
    found = server.ask("GET", path)["status"]
    server.ask("DELETE", path)
    assert found["state"] == "Running"
    assert [one["type"] for one in found["conditions"]] == ["Accepted", "Audited"]


def test_the_status_is_a_subresource_that_an_edit_does_not_touch(server):
    server.create(manifest("split") | {"status": {"state": "Succeeded"}})
    assert "status" not in server.ask("GET", f"{RUNS}/split")
    server.ask("DELETE", f"{RUNS}/split")
