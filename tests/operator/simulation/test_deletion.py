"""A run that is deleted goes, whatever Kubernetes does not show and whichever calls it refuses."""

import asyncio

import pytest
from flaky import ERRORS, READS, REFUSED
from queued_world import PLATFORM, QueuedWorld
from virtual_time import virtual_time
from world import EXTERNAL, SPEC, STORE, UID, World

from agentrl_operator.errors import KubernetesError

WEBHOOK_DOWN = KubernetesError("Kubernetes: 500: conversion webhook failed", status=500)
RAY = {"ray": "cluster", "trainers": {"count": 2}, "samplers": {"count": 3}}
FAILING = [
    (client, method, error)
    for client, methods in READS.items()
    for method in methods
    for error in (WEBHOOK_DOWN, REFUSED)
    if client in ("cluster", "kueue", "kuberay", "agent_sandbox")
] + [
    ("kueue", "delete_workload", REFUSED),
    ("kuberay", "delete_ray_cluster", REFUSED),
    ("cluster", "delete_deployment", REFUSED),
    ("agent_sandbox", "delete_sandboxes", REFUSED),
]
"""Calls of Kubernetes, and how they fail."""


class OwningWorld(QueuedWorld):
    """A run with objects of every optional add-on."""

    def __init__(self):
        environments = [
            {"name": "code", "builtin": "corridor", "backend": "sandbox"},
            {"name": "walk", "builtin": "corridor"},
        ]
        compute = RAY | {"queue": "training"}
        World.__init__(self, PLATFORM, environments=environments, compute=compute)

    async def work(self):
        """Reconcile until the first phase works."""
        await self.reconcile(2)
        self.kueue.admit()
        await self.reconcile(4)
        assert self.kfp.working


@pytest.mark.parametrize(("client", "method", "error"), FAILING)
async def test_a_call_that_always_fails_does_not_keep_a_deleted_run(client, method, error):
    world = OwningWorld()
    await world.work()
    world.broken[client, method] = error
    await world.delete_and_wait()

    assert world.key not in world.cluster.resources
    assert not world.kfp.working


async def test_a_deleted_run_whose_pods_are_not_shown_waits_for_them():
    world = World()
    await world.reconcile(2)
    world.broken["cluster", "list_pods"] = WEBHOOK_DOWN
    world.delete()
    await world.reconcile()
    world.stop_work()
    world.pass_time(80)
    await world.reconcile()
    assert "does not show which pods have not ended" in world.status["message"]

    world.pass_time(20)
    await world.reconcile()
    assert world.key not in world.cluster.resources


async def test_data_that_cannot_be_deleted_keeps_the_run_for_ten_minutes():
    world = World(storage={"onDelete": "delete"})
    await world.reconcile(2)
    world.broken["stores", "delete_run_data"] = ERRORS["stores"]
    await world.delete_and_wait()
    assert world.key in world.cluster.resources

    world.pass_time(600)
    await world.reconcile()
    assert world.key not in world.cluster.resources
    (told,) = [message for _, reason, message in world.cluster.events if reason == "DataKept"]
    assert told == (
        "spec.storage.onDelete: the data is kept, as it could not be deleted within 600 s; delete "
        f"what is left in {STORE}"
    )


@virtual_time
async def test_data_that_is_deleted_in_many_steps_is_no_error_and_not_waited_for_longer_each_time():
    world = World(storage={"onDelete": "delete"})
    await world.reconcile(2)
    world.finish_phase()
    world.stores.partial_deletions = 40
    world.delete()
    async with world.controller.run_workers():
        world.watch()
        await asyncio.sleep(39.5)
        assert world.status["message"] == "deleting: the run's data is being deleted"
        await asyncio.sleep(1)

    assert world.key not in world.cluster.resources
    assert STORE not in world.stores.runs
    assert [reason for _, reason, _ in world.cluster.events][-1] == "Deleting"
    counted = {"dependency": "run_store"}
    registry = world.controller.metrics.registry
    assert registry.get_sample_value("agentrl_operator_dependency_errors_total", counted) == 0


class Interrupted:
    """A client: something happens between the first call of `method` and its answer."""

    def __init__(self, client, method, event):
        self._client = client
        self._method = method
        self._event = event

    def __getattr__(self, name):
        call = getattr(self._client, name)
        if name != self._method or self._event is None:
            return call
        event, self._event = self._event, None

        async def interrupted(*args):
            answer = await call(*args)
            event()
            return answer

        return interrupted


OTHER = "7b1b2c3d-0000-4000-8000-000000000002"


def replace(world):
    """Let another run of the same name take the place of the run."""
    spec = world.cluster.resources.pop(world.key)["spec"]
    world.controller.run_deleted(UID)
    world.cluster.add("demo", "kubeflow", OTHER, spec)
    world.controller.run_changed(world.cluster.body(world.key))


async def test_a_plan_is_not_executed_on_another_run_of_the_same_name():
    world = World(environments=EXTERNAL)
    world.kfp = Interrupted(world.kfp, "get_run", lambda: replace(world))
    world.restart()
    await world.reconcile()
    assert world.kfp.submitted == []
    assert world.controller.runs() == {OTHER}

    await world.reconcile(2)
    assert [one.experiment for one in world.kfp.submitted] == ["demo-7b1b2c3d"]


async def test_a_late_answer_does_not_put_a_deleted_run_in_place_of_the_next_of_its_name():
    world = World()
    world.cluster = Interrupted(world.cluster, "patch_status", lambda: replace(world))
    world.restart()
    await world.reconcile()

    assert world.controller.runs() == {OTHER}


async def test_a_deleted_run_that_an_older_list_still_shows_is_not_started_again():
    world = World()
    await world.reconcile(2)
    shown = world.cluster.body(world.key)
    await world.delete_and_wait()
    world.controller.run_deleted(UID)
    world.controller.run_changed(shown)
    await world.controller.reconcile(world.key)

    assert world.controller.runs() == set()
    assert not world.kfp.working


async def test_a_run_in_a_namespace_without_rights_for_the_operator_is_deleted_at_once():
    world = World()
    del world.cluster.resources[world.key]
    world.key = world.cluster.add("demo", "team", UID, SPEC)
    for method in ("list_pods", "workflow_phases", "delete_workflows"):
        world.broken["cluster", method] = REFUSED
    await world.reconcile(2)
    assert world.conditions()["Accepted"] == ("False", "InvalidSpec")
    world.delete()
    await world.reconcile()

    assert world.key not in world.cluster.resources
