"""Requests of the client of Kueue."""

from recorded_requests import RecordedRequests

from agentrl_operator.clients.addons.kueue import KueueApi

WORKLOAD = "apis/kueue.x-k8s.io/v1beta2/namespaces/kubeflow/workloads/demo"


async def test_a_workload_that_does_not_exist_is_none():
    found = {"metadata": {"name": "demo"}}
    kueue = KueueApi(RecordedRequests({("GET", WORKLOAD): found}))
    assert await kueue.get_workload("kubeflow", "demo") == found
    assert await kueue.get_workload("kubeflow", "other") is None


async def test_the_status_of_a_workload_is_patched_apart_from_its_spec():
    request = RecordedRequests()
    kueue = KueueApi(request)
    status = {"metadata": {"resourceVersion": "7"}, "status": {"conditions": []}}
    await kueue.patch_workload_status("kubeflow", "demo", status)
    await kueue.patch_workload_spec("kubeflow", "demo", {"priority": 3})
    assert request.requests == [
        ("PATCH", f"{WORKLOAD}/status", status),
        ("PATCH", WORKLOAD, {"spec": {"priority": 3}}),
    ]


async def test_a_deleted_workload_has_no_options():
    request = RecordedRequests()
    await KueueApi(request).delete_workload("kubeflow", "demo")
    assert request.requests == [("DELETE", WORKLOAD, None)]


async def test_flavors_and_priority_classes_belong_to_no_namespace():
    api = "apis/kueue.x-k8s.io/v1beta2"
    spot, urgent = {"spec": {"nodeLabels": {"pool": "spot"}}}, {"value": 100}
    answers = {
        ("GET", f"{api}/resourceflavors/spot"): spot,
        ("GET", f"{api}/workloadpriorityclasses/urgent"): urgent,
    }
    kueue = KueueApi(RecordedRequests(answers))
    assert await kueue.get_resource_flavor("spot") == spot
    assert await kueue.get_resource_flavor("other") is None
    assert await kueue.get_priority_class("urgent") == urgent
    assert await kueue.get_priority_class("other") is None
