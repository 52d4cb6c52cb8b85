"""Requests of the client of KubeRay."""

from recorded_requests import RecordedRequests

from agentrl_operator.clients.addons.kuberay import KubeRayApi

CLUSTER = "apis/ray.io/v1/namespaces/kubeflow/rayclusters/demo"


async def test_kuberay_is_installed_where_its_api_is_served():
    served = RecordedRequests({("GET", "apis/ray.io/v1"): {"resources": []}})
    assert await KubeRayApi(served).is_installed()
    assert not await KubeRayApi(RecordedRequests()).is_installed()


async def test_a_ray_cluster_that_does_not_exist_is_none():
    found = {"metadata": {"name": "demo"}}
    kuberay = KubeRayApi(RecordedRequests({("GET", CLUSTER): found}))
    assert await kuberay.get_ray_cluster("kubeflow", "demo") == found
    assert await kuberay.get_ray_cluster("kubeflow", "other") is None


async def test_a_deleted_ray_cluster_stays_until_its_pods_are_gone():
    request = RecordedRequests()
    await KubeRayApi(request).delete_ray_cluster("kubeflow", "demo")
    assert request.requests == [("DELETE", CLUSTER, {"propagationPolicy": "Foreground"})]
