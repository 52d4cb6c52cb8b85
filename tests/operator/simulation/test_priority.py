"""The Kueue priority of a run, simulated in memory."""

from queued_world import CLASS, QueuedWorld, evicted
from world import World

from agentrl_operator.manifests import workload
from agentrl_operator.manifests.workload import Priority
from agentrl_pipelines.platform.config import Mlflow, Platform


def priority(world):
    spec = world.workload["spec"]
    return spec.get("priorityClassRef", {}).get("name"), spec.get("priority")


async def test_a_workload_has_the_priority_of_the_class_that_the_label_names():
    world = QueuedWorld()
    world.kueue.classes["urgent"] = 100
    world.cluster.label(world.key, **{CLASS: "urgent"})
    await world.reconcile(2)

    assert world.workload["spec"]["priorityClassRef"] == {
        "group": "kueue.x-k8s.io",
        "kind": "WorkloadPriorityClass",
        "name": "urgent",
    }
    assert world.workload["spec"]["priority"] == 100
    world.kueue.classes["urgent"] = 7  # Kueue itself brings Workloads up to date
    world.restart()
    await world.reconcile(2)
    assert priority(world) == ("urgent", 100)


async def test_an_unknown_priority_class_is_reported_and_nothing_starts():
    world = QueuedWorld()
    world.cluster.label(world.key, **{CLASS: "unheard-of"})
    await world.reconcile(2)
    world.kueue.admit()
    await world.reconcile()

    assert world.workload is None
    assert world.kfp.submitted == []
    assert world.conditions()["Admitted"] == ("False", "NoPriorityClass")
    assert world.conditions()["Progressing"] == ("False", "NoPriorityClass")
    assert world.status["message"] == (
        "not in the queue: metadata.labels.kueue.x-k8s.io/priority-class: there is no "
        "WorkloadPriorityClass unheard-of; create it, or correct the label"
    )
    assert ("Warning", "NoPriorityClass") in {one[:2] for one in world.cluster.events}
    world.kueue.classes["unheard-of"] = 5
    await world.reconcile(2)
    assert priority(world) == ("unheard-of", 5)
    assert world.conditions()["Admitted"] == ("False", "Queued")


async def test_a_queued_run_leaves_the_queue_when_its_class_does_not_exist():
    world = QueuedWorld()
    await world.reconcile()
    world.cluster.label(world.key, **{CLASS: "unheard-of"})
    await world.reconcile(2)
    assert world.workload is None
    world.cluster.label(world.key, **{CLASS: None})
    await world.reconcile(2)
    assert priority(world) == (None, None)


async def test_an_invalid_manifest_does_not_change_the_workload():
    world = QueuedWorld()
    world.kueue.classes |= {"urgent": 100, "calm": 1}
    world.cluster.label(world.key, **{CLASS: "calm"})
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(3)
    world.cluster.edit(world.key, seed=-1)
    world.cluster.label(world.key, **{CLASS: "urgent"})
    await world.reconcile()
    version = world.workload["metadata"]["resourceVersion"]
    await world.reconcile(3)

    assert world.workload["metadata"]["resourceVersion"] == version
    assert priority(world) == ("calm", 1)
    world.cluster.edit(world.key, seed=1)
    await world.reconcile(2)
    assert priority(world) == ("urgent", 100)


async def test_a_running_run_can_change_its_priority_class():
    world = QueuedWorld()
    world.kueue.classes |= {"urgent": 100, "calm": 1}
    world.cluster.label(world.key, **{CLASS: "calm"})
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.cluster.label(world.key, **{CLASS: "urgent"})
    await world.reconcile(2)
    assert priority(world) == ("urgent", 100)

    world.cluster.label(world.key, **{CLASS: "unheard-of"})
    await world.reconcile(2)
    assert priority(world) == ("urgent", 100)
    assert world.conditions()["Admitted"] == ("True", "Admitted")
    told = next(one for one in world.status["conditions"] if one["type"] == "Admitted")
    assert "there is no WorkloadPriorityClass unheard-of" in told["message"]
    assert len(world.kfp.submitted) == 1


async def test_adding_or_removing_a_class_while_quota_is_reserved_applies_later():
    world = QueuedWorld()
    world.kueue.classes["urgent"] = 100
    await world.reconcile()
    world.kueue.admit()
    await world.reconcile(2)
    world.cluster.label(world.key, **{CLASS: "urgent"})
    await world.reconcile(2)
    assert priority(world) == (None, None)  # as Kueue has it
    assert world.conditions()["Progressing"] == ("True", "Running")

    await evicted(world)
    await world.reconcile()
    assert priority(world) == ("urgent", 100)


async def test_pods_that_kueue_admits_one_by_one_have_the_class_label():
    world = World(Platform(tracking=Mlflow(uri="http://m.test")), compute={"queue": "training"})
    world.cluster.label(world.key, **{CLASS: "urgent"})
    await world.reconcile(2)

    (submitted,) = world.kfp.submitted
    assert submitted.pipeline_spec["queued"].priority_class == "urgent"


def test_a_workload_created_by_hand_may_have_no_priority_class():
    body = {"metadata": {}, "spec": {"priority": 3}}
    assert workload.read(body).priority_class is None
    assert workload.priority_fields(None) == {"priorityClassRef": None, "priority": None}
    named = workload.priority_fields(Priority(name="urgent", value=100))
    assert named["priority"] == 100
