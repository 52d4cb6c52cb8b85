"""The controller beside clients that do not answer, bugs, and many runs."""

import asyncio

from world import EXTERNAL, PLATFORM, SPEC, STORE, World

from agentrl_operator.clients.protocols import Clients
from agentrl_operator.controller.controller import Controller
from agentrl_operator.errors import KfpError, KubernetesError, RunStoreError


async def test_a_kfp_run_whose_start_was_not_answered_is_adopted():
    world = World(environments=EXTERNAL)
    world.kfp.loses_responses = True
    await world.reconcile()
    assert world.conditions()["Progressing"] == ("Unknown", "KfpUnavailable")

    world.kfp.loses_responses = False
    await world.reconcile()

    assert len(world.kfp.submitted) == 1
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_an_unavailable_mlflow_stops_nothing():
    world = World(environments=EXTERNAL)
    world.tracking.down = True
    await world.reconcile(2)

    assert world.conditions()["Progressing"] == ("True", "Running")
    assert "mlflowRun" not in world.status
    world.stores.run(STORE).mlflow_run = "made-by-a-stage"
    await world.reconcile()
    assert world.status["mlflowRun"] == "made-by-a-stage"


def errors(world, dependency):
    """How many failed requests to this service the metrics have."""
    counted = {"dependency": dependency}
    registry = world.controller.metrics.registry
    return registry.get_sample_value("agentrl_operator_dependency_errors_total", counted)


async def test_errors_of_dependencies_are_counted_in_the_metrics():
    world = World()
    await world.reconcile(3)
    world.kfp.down = True
    await world.reconcile()
    world.kfp.down, world.stores.down = False, True
    await world.reconcile()
    assert (errors(world, "kfp"), errors(world, "run_store")) == (1, 1)


async def test_an_mlflow_that_is_down_is_counted_though_it_stops_nothing():
    """Regression: the series existed and could not rise."""
    world = World(environments=EXTERNAL)
    world.tracking.down = True
    await world.reconcile(2)
    assert errors(world, "mlflow") == 1  # an MLflow run is created at the first start only

    world.stores.run(STORE).mlflow_run = "made-by-a-stage"
    for _ in range(3):
        world.finish_phase()
        await world.reconcile(2)
    assert world.status["state"] == "Succeeded"
    assert errors(world, "mlflow") == 3  # two reconciliations of the run since it ended
    world.pass_time(60)
    await world.reconcile()
    assert errors(world, "mlflow") == 4


async def test_a_record_of_the_mlflow_run_that_is_not_read_is_an_error_of_the_store():
    world = World(environments=EXTERNAL)
    world.tracking.down = True
    await world.reconcile(2)
    world.broken["stores", "read_mlflow_run"] = RunStoreError("the store: connection refused")
    await world.reconcile()
    assert errors(world, "run_store") == 1
    assert world.conditions()["Progressing"] == ("True", "Running")


async def test_an_event_that_is_not_created_is_counted():
    world = World(environments=EXTERNAL)
    refused = KubernetesError("Kubernetes: POST events: 403", status=403, retryable=False)
    world.broken["cluster", "create_event"] = refused
    await world.reconcile()
    assert errors(world, "kubernetes") == 1
    assert world.conditions()["Progressing"][1] == "Submitting"


async def test_a_run_whose_request_is_refused_is_counted_as_blocked_until_it_goes_on():
    world = World()
    refused = KfpError("KFP: POST runs: 400: invalid", status=400, retryable=False)
    world.broken["pipelines", "start_run"] = refused
    await world.reconcile(2)

    def blocked(reason):
        registry = world.controller.metrics.registry
        return registry.get_sample_value("agentrl_runs_blocked", {"reason": reason})

    assert (blocked("KfpRefused"), blocked("KfpUnavailable")) == (1, 0)
    world.broken.clear()
    await world.reconcile(2)
    assert world.conditions()["Progressing"] == ("True", "Running")
    assert blocked("KfpRefused") == 0


async def test_each_run_that_ends_is_counted_once_and_not_again_after_a_restart():
    world = World(backoffLimit=0)
    await world.reconcile(3)
    world.finish_phase("FAILED")
    await world.reconcile(3)
    assert world.status["state"] == "Failed"

    def ended(state):
        registry = world.controller.metrics.registry
        return registry.get_sample_value("agentrl_runs_finished_total", {"state": state})

    assert (ended("Failed"), ended("Succeeded")) == (1, 0)
    world.restart()
    await world.reconcile(3)
    assert ended("Failed") == 0


async def test_an_internal_error_is_counted_and_the_run_is_retried():
    world = World(environments=EXTERNAL)
    failures = [ZeroDivisionError()]

    def fails_once(run, uid, platform, queued):
        if failures:
            raise failures.pop()
        return {}

    clients = Clients(
        cluster=world.cluster,
        pipelines=world.kfp,
        stores=world.stores,
        tracking=world.tracking,
        bind=fails_once,
    )
    controller = Controller(clients, PLATFORM, workers=2)
    async with controller.run_workers():
        controller.run_changed(world.cluster.body(world.key))
        async with asyncio.timeout(300):
            while not world.kfp.submitted:
                await asyncio.sleep(0.01)
    counted = {"result": "internal_error"}
    name = "agentrl_operator_reconcile_total"
    assert controller.metrics.registry.get_sample_value(name, counted) == 1
    assert len(world.kfp.submitted) == 1


async def test_many_runs_are_reconciled_concurrently():
    world, count = World(), 300
    spec = SPEC | {"environments": EXTERNAL}
    keys = [
        world.cluster.add(f"run-{n}", "kubeflow", f"6a1b2c3d-0000-4000-8000-{n:012}", spec)
        for n in range(1000, 1000 + count)
    ]
    async with world.controller.run_workers(), asyncio.timeout(300):
        for key in keys:
            world.controller.run_changed(world.cluster.body(key))
        while len(world.kfp.submitted) < count:
            await asyncio.sleep(0.01)
    assert len({one.run_id for one in world.kfp.submitted}) == count
