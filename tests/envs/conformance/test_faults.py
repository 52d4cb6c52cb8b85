import pytest

from agentrl_envs.conformance.faults import Faults, FaultyTaskSet, FaultyWorld
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.world import LocalWorld, World


def losses(seed: int, sessions: int = 50) -> list[int]:
    """Number of steps before each session is lost; -1 if it survives three steps."""
    tasks = FaultyTaskSet(CorridorTasks(), Faults(seed=seed, lose_step=0.3))
    lost = []
    for index in range(sessions):
        environment = tasks.environment()
        environment.reset(tasks.task("train", index))
        taken = 0
        try:
            while taken < 3:
                environment.step("nothing")
                taken += 1
            lost.append(-1)
        except SessionError:
            lost.append(taken)
    return lost


def test_faults_are_determined_by_the_seed():
    assert losses(1) == losses(1)
    assert losses(1) != losses(2)
    assert {-1, 0, 1, 2} == set(losses(1))


def test_lost_session_stays_lost_until_reset():
    tasks = FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))
    environment = tasks.environment()
    environment.reset(tasks.task("train", 0))
    for _ in range(2):
        with pytest.raises(SessionError, match="on purpose"):
            environment.step("left")
    environment.reset(tasks.task("train", 0))


async def test_faulty_world_loses_sessions_without_a_server():
    world = FaultyWorld(LocalWorld(CorridorTasks()), Faults(lose_reset=1.0))
    assert isinstance(world, World)
    with pytest.raises(SessionError, match="while its task was set up"):
        await world.session().reset(await world.task("train", 0))


async def test_zero_fault_rates_change_nothing():
    plain, faulty = LocalWorld(CorridorTasks()), FaultyWorld(LocalWorld(CorridorTasks()), Faults())
    task = await faulty.task("heldout", 1)
    here, there = plain.session(), faulty.session()
    assert await here.reset(task) == await there.reset(task)
    assert await here.step("left") == await there.step("left")
    await there.close()
