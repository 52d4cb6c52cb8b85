"""The failure of an earlier attempt, which the run's store keeps, is not that of a later one."""

from world import STORE, World

from agentrl_components.storage.records import RunState

LOST = RunState(
    status="failed",
    reason="EngineError",
    message="train: the engine died",
    failed_phase=0,
    failed_attempt=0,
)
GATED = RunState(
    status="failed",
    reason="ModelError",
    message="train: the model is gated",
    final=True,
    failed_phase=0,
    failed_attempt=0,
)
PROBLEM = 'CreateContainerConfigError: secret "hub" not found'


async def test_the_cause_of_an_attempt_is_what_its_own_stages_report():
    world = World()
    await world.reconcile(2)
    world.finish_phase("FAILED")
    world.stores.run(STORE).state = LOST
    await world.reconcile()
    assert world.status["message"] == "EngineError: train: the engine died; trying again in 10 s"

    world.pass_time(20)
    await world.reconcile(2)
    assert "the engine died" not in world.status["message"]
    world.cluster.pod_problems[world.status["kfpRun"]] = PROBLEM
    for _ in range(7):
        world.pass_time(61)
        await world.reconcile()
    assert world.status["message"] == f"train: {PROBLEM}; stopping the KFP run"
    world.stop_work()
    await world.reconcile()
    assert PROBLEM in world.status["message"]
    assert "the engine died" not in world.status["message"]


async def test_a_final_failure_before_a_suspension_does_not_end_the_attempt_after_it():
    world = World()
    await world.reconcile(2)
    world.stores.run(STORE).state = GATED
    await world.apply("suspend")
    await world.reconcile()
    world.stop_work()
    await world.reconcile(2)
    assert world.status["state"] == "Suspended"

    await world.apply("resume")
    await world.reconcile(5)
    assert world.status["state"] == "Running"
    assert len(world.kfp.submitted) == 2
    assert world.kfp.working


async def test_a_final_failure_of_the_present_attempt_ends_the_run():
    world = World()
    await world.reconcile(2)
    world.stores.run(STORE).state = GATED
    await world.reconcile()
    world.stop_work()
    await world.reconcile()
    assert world.status["state"] == "Failed"
    assert world.status["message"] == "ModelError: train: the model is gated"
