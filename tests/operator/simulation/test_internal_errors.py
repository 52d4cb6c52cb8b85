"""Unexpected errors of the operator: they are shown, retried, and never hold a deletion up."""

import pytest
from flaky import WRITES
from world import World


async def test_an_unexpected_error_is_shown_in_the_status_and_retried():
    world = World()
    await world.reconcile(2)
    world.failures["stores", "read_state"] = ValueError("port could not be cast to integer value")
    await world.reconcile()

    assert world.conditions()["Progressing"] == ("Unknown", "InternalError")
    assert world.status["message"] == (
        "internal error of the operator, see its log: "
        "ValueError('port could not be cast to integer value')"
    )
    assert ("Warning", "InternalError") in [one[:2] for one in world.cluster.events]
    await world.reconcile()
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_an_unexpected_error_of_the_first_action_is_shown_too():
    world = World()
    world.broken["cluster", "create"] = RuntimeError("no such codec")
    await world.reconcile()

    assert world.conditions()["Progressing"] == ("Unknown", "InternalError")
    assert "no such codec" in world.status["message"]


async def test_a_manifest_whose_validation_fails_unexpectedly_is_not_accepted():
    world = World()
    await world.reconcile(2)
    world.cluster.edit(world.key, seed=1)
    world.cluster.resources[world.key]["spec"] = "not foreseen: the API server requires an object"
    await world.reconcile()

    assert world.conditions()["Accepted"] == ("False", "InvalidSpec")
    assert "spec: internal error while it was validated" in world.status["message"]
    await world.delete_and_wait()
    assert world.key not in world.cluster.resources


CALLS = [
    *((client, method) for client, methods in WRITES.items() for method in methods),
    ("stores", "read_state"),
    ("pipelines", "get_run"),
    ("pipelines", "list_runs"),
    ("cluster", "list_pods"),
]
NEEDED = ("cluster", "remove_finalizer")


@pytest.mark.parametrize(("client", "method"), [one for one in CALLS if one != NEEDED])
async def test_no_unexpected_error_keeps_the_finalizer(client, method):
    world = World(storage={"onDelete": "delete"})
    await world.reconcile(2)
    world.broken[client, method] = ValueError("Invalid URL: port can't be converted to integer")
    await world.reconcile()
    await world.delete_and_wait()

    assert world.key not in world.cluster.resources
