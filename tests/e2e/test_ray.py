"""A run with a Ray cluster of its own, on the real KubeRay: a worker dies, the run is suspended and
resumed, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installed import CACHE, Installed, manifest

pytestmark = pytest.mark.e2e

COMPUTE = {
    "ray": "cluster",
    "workers": 0,
    "memory": "3Gi",
    "cpu": "100m",
    "trainers": {"count": 2, "cpu": "100m"},
    "samplers": {"count": 1, "cpu": "100m"},
}


@pytest.fixture(scope="module")
def ray_run(installed: Installed) -> Iterator[str]:
    """The name of a run with a Ray cluster; deleted at the end."""
    if not installed.local or not (CACHE / "cluster/bin/kuberay").exists():
        pytest.skip("no KubeRay: `python hack/cluster build kuberay` builds it, for the local one")
    installed.local_cluster("kuberay")
    short: dict[str, Any] = {
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 4}, {"maxTurns": 4, "iterations": 3}],
            "alarms": [],
        },
        "evaluation": {"tasks": 20},
        "warmStart": None,
        "rollout": {"tasks": 8, "groupSize": 4, "maxStaleness": 0},
        "compute": COMPUTE,
    }
    installed.apply(manifest("ray", **short))
    yield "ray"
    installed.kubectl("delete", "agentrlrun", "ray", "--timeout=300s")
    assert ray_clusters(installed) == []
    installed.until("its pods are gone", lambda: not ray_pods(installed) or None, 120)


def ray_clusters(installed: Installed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = installed.get("rayclusters")["items"]
    return found


def ray_pods(installed: Installed) -> list[dict[str, Any]]:
    selector = "agentrl.dev/ray in (head,trainers,samplers)"
    found: list[dict[str, Any]] = installed.get("pods", "-l", selector)["items"]
    return found


def test_a_killed_worker_is_replaced_and_a_suspended_run_goes_on_with_a_new_cluster(
    installed: Installed, ray_run: str
) -> None:
    installed.until_iteration(ray_run, 1, 900)
    assert installed.status(ray_run)["ray"]["workers"] == "trainers 2/2, samplers 1/1"

    killed = next(installed.pods(**{"agentrl.dev/ray": "trainers"}))["metadata"]["name"]
    installed.kubectl("delete", "pod", killed, "--grace-period=0", "--force")
    installed.until_iteration(ray_run, 2, 600)

    installed.suspend(ray_run, True)
    installed.until_state(ray_run, "Suspended", 300)
    installed.until("no Ray cluster is left", lambda: not ray_clusters(installed) or None, 60)
    installed.suspend(ray_run, False)

    status = installed.until_state(ray_run, "Succeeded", 1200)
    assert status["iteration"] == 7
    installed.until("its Ray cluster is gone", lambda: not ray_clusters(installed) or None, 60)
