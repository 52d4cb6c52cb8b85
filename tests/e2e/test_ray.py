"""A run with a Ray cluster of its own, on the real KubeRay, in a queue of the real Kueue, with its
model on a claim and temporary files on volumes: the stage that drives its actors dies, a worker and
the head die, the run is suspended and resumed, and ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from installed import CACHE, Installed
from ray_volumes import MODELS, MOUNTED, STORAGE_CLASS, ray_volumes
from run_manifests import manifest, tiny_manifest

pytestmark = pytest.mark.e2e

COMPUTE = {
    "ray": "cluster",
    "workers": 0,
    "memory": "3Gi",
    "cpu": "100m",
    "trainers": {"count": 4, "perPod": 2, "cpu": "100m", "memory": "1536Mi", "disk": "500Mi"},
    "samplers": {"count": 1, "cpu": "100m", "disk": "1Gi"},
    "storageClass": STORAGE_CLASS,
    "volumes": [{"claim": MODELS, "path": MOUNTED}],
    "queue": "rays",
}
NEEDS = {"cpu": "1350m", "memory": "13568Mi"}
"""Stage 100m and 3 GiB, head 500m and 2 GiB, four trainers 100m and 1.5 GiB each in two pods, a
sampler 100m and 2 GiB, environment server 250m and 256 MiB."""
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: rays}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default
      resources: [{name: cpu, nominalQuota: 1350m}, {name: memory, nominalQuota: 16Gi}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: rays}
spec: {clusterQueue: rays}
"""
NOTHING = {"cpu": "0", "memory": "0"}


@pytest.fixture(scope="module")
def ray_run(installed: Installed) -> Iterator[str]:
    """The name of a run with a Ray cluster; deleted at the end."""
    programs = [CACHE / "cluster/bin" / name for name in ("kuberay", "kueue")]
    if not installed.local or not all(program.exists() for program in programs):
        pytest.skip("`python hack/cluster build kuberay kueue` builds both, for the local cluster")
    installed.local_cluster("kuberay")
    installed.kubectl("apply", "-f", "-", stdin=QUEUE)
    short: dict[str, Any] = {
        "horizon": {
            # The first phase is long enough to be under way when something is killed.
            "phases": [{"maxTurns": 3, "iterations": 40}, {"maxTurns": 4, "iterations": 3}],
            "alarms": [],
        },
        "evaluation": {"tasks": 20},
        "warmStart": None,
        "rollout": {"tasks": 8, "groupSize": 4, "maxStaleness": 0},
        "compute": COMPUTE,
    }
    with ray_volumes(installed, manifest("ray", **short)):
        on_the_claim = {"source": f"file://{MOUNTED}/tiny"}
        installed.apply(manifest("ray", **short, model=on_the_claim))
        yield "ray"
        installed.kubectl("delete", "agentrlrun", "ray", "--timeout=300s")
        assert ray_clusters(installed) == []
        installed.until("its pods are gone", lambda: not ray_pods(installed) or None, 120)
        installed.until("their volumes are free", lambda: not ray_claims(installed) or None, 120)
    installed.kubectl("delete", "-f", "-", stdin=QUEUE)


def ray_clusters(installed: Installed) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = installed.get("rayclusters")["items"]
    return found


def ray_pods(installed: Installed) -> list[dict[str, Any]]:
    selector = "agentrl.dev/ray in (head,trainers,samplers)"
    found: list[dict[str, Any]] = installed.get("pods", "-l", selector)["items"]
    return found


def ray_claims(installed: Installed) -> list[str]:
    """Names of the claims of the pods' volumes for temporary files."""
    found = installed.get("persistentvolumeclaims")["items"]
    own = (one for one in found if one["spec"]["storageClassName"] == STORAGE_CLASS)
    return [one["metadata"]["name"] for one in own]


def used(installed: Installed) -> dict[str, str]:
    """What Kueue counts as used of the queue's quota."""
    (flavor,) = installed.get("clusterqueue", "rays")["status"]["flavorsUsage"]
    return {one["name"]: one["total"] for one in flavor["resources"]}


def why_queued(installed: Installed, name: str) -> str:
    """Kueue's message about a run that waits for quota; empty if it does not wait."""
    conditions = {one["type"]: one for one in installed.status(name).get("conditions", ())}
    admitted = conditions.get("Admitted", {})
    return str(admitted["message"]) if admitted.get("reason") == "Queued" else ""


def ready_pods(installed: Installed, **labels: str) -> dict[str, str]:
    """Names of the run's pods with these labels that are ready, by uid. Argo gives the pod of a
    stage the name of the one that it replaces."""
    found = {}
    for pod in installed.pods(**{"agentrl.dev/run": "ray"}, **labels):
        conditions = {one["type"]: one["status"] for one in pod["status"].get("conditions", ())}
        if conditions.get("Ready") == "True":
            found[pod["metadata"]["uid"]] = pod["metadata"]["name"]
    return found


def kill(installed: Installed, **labels: str) -> str:
    """Kill one of the run's pods with these labels, and wait until another is ready in its place.
    Returns the name of that."""
    before = ready_pods(installed, **labels)
    victim = before[min(before)]
    # Without waiting: a finalizer keeps the pod of a stage until its workflow has ended.
    words = ("--grace-period=0", "--force", "--wait=false")
    installed.kubectl("delete", "pod", victim, *words)

    def replaced() -> dict[str, str] | None:
        now = ready_pods(installed, **labels)
        return now if min(before) not in now and len(now) == len(before) else None

    now = installed.until(f"{victim} is replaced", replaced, 300)
    (other,) = now.keys() - before.keys()
    return now[other]


def until_it_goes_on(installed: Installed, run: str) -> None:
    """Wait until the run has done an iteration more than now."""
    installed.until_iteration(run, installed.status(run)["iteration"] + 1, 600)


def test_the_quota_of_a_queue_counts_the_ray_cluster_of_a_run(
    installed: Installed, ray_run: str
) -> None:
    installed.until("the run is admitted", lambda: used(installed) == NEEDS or None, 120)
    installed.apply(tiny_manifest("ray-next", compute={"queue": "rays"}))
    message = "insufficient unused quota for cpu in flavor default, 50m more needed"
    installed.until(
        "there is no quota for another",
        lambda: message in why_queued(installed, "ray-next") or None,
        120,
    )
    assert not list(installed.pods(**{"agentrl.dev/run": "ray-next"}))
    installed.kubectl("delete", "agentrlrun", "ray-next", "--timeout=120s")
    installed.until_iteration(ray_run, 1, 900)
    assert used(installed) == NEEDS


def test_a_run_goes_on_after_its_stage_a_worker_and_the_head_died_and_after_it_was_suspended(
    installed: Installed, ray_run: str
) -> None:
    installed.until_iteration(ray_run, 1, 900)
    assert installed.status(ray_run)["ray"]["workers"] == "trainers 4/4, samplers 1/1"
    assert len(ray_claims(installed)) == 3

    second = kill(installed, **{"agentrl.dev/stage": "train"})
    # All trainers, and the sampler, unless the stage died while it called some of them.
    taken = "took over from an earlier stage: "
    installed.until("it takes over", lambda: taken in installed.kubectl("logs", second), 300)
    # The trainers write checkpoints to MinIO themselves.
    assert "pass through the memory of this process" not in installed.kubectl("logs", second)
    until_it_goes_on(installed, ray_run)
    for role in ("trainers", "head"):
        kill(installed, **{"agentrl.dev/ray": role})
        until_it_goes_on(installed, ray_run)

    installed.suspend(ray_run, True)
    installed.until_state(ray_run, "Suspended", 300)
    installed.until("no Ray cluster is left", lambda: not ray_clusters(installed) or None, 60)
    installed.until("its quota is free", lambda: used(installed) == NOTHING or None, 60)
    installed.suspend(ray_run, False)

    status = installed.until_state(ray_run, "Succeeded", 1200)
    assert status["iteration"] == 43
    installed.until("its Ray cluster is gone", lambda: not ray_clusters(installed) or None, 60)
    installed.until("its quota is free", lambda: used(installed) == NOTHING or None, 60)
