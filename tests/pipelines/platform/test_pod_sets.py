"""The pod sets of a run, as Kueue counts them."""

from collections import Counter
from pathlib import Path

from agentrl_components.spec import load
from agentrl_components.spec.quantities import quantity_value
from agentrl_pipelines.platform.pod_sets import pod_sets, shared_pod_sets

EVERYTHING = Path(__file__).parents[3] / "examples" / "everything.yaml"


def requested(sets):
    """What all pods request together."""
    total = Counter()
    for one in sets:
        for name, amount in one.requests.items():
            total[name] += one.count * quantity_value(amount)
    return total


def test_all_environments_and_a_ray_cluster_fit_the_workload_of_every_supported_kueue():
    run = load(EVERYTHING, ["compute.ray=cluster", "compute.image=registry.test/agentrl:1"])
    assert len(pod_sets(run)) > 8
    shared = shared_pod_sets(run)
    assert len(shared) <= 8
    assert requested(shared) == requested(pod_sets(run))
    assert sum(one.count for one in shared) == sum(one.count for one in pod_sets(run))


def test_servers_that_need_other_nodes_have_a_pod_set_of_their_own():
    run = load(EVERYTHING, ["environments[0].nodeSelector={pool: a}"])
    own, shared = shared_pod_sets(run), shared_pod_sets(load(EVERYTHING))
    assert len(own) == len(shared) + 1
    (placed,) = (one for one in own if one.owner.node_selector)
    assert placed.name == f"environment-{run.spec.environments[0].name}"
