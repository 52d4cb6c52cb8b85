import pytest
from gymnasium.utils.env_checker import check_env

from agentrl_envs.environments.corridor import CorridorOptions, CorridorTasks
from agentrl_envs.errors import OptionError, SessionError
from agentrl_envs.protocols.gymnasium_env import TaskSetEnv


def test_a_task_set_passes_gymnasiums_own_checker():
    check_env(TaskSetEnv(CorridorTasks()), skip_render_check=True)


def test_the_seed_is_the_index_of_the_task_and_without_one_the_next_is_played():
    tasks = CorridorTasks(CorridorOptions(turns=9))
    env = TaskSetEnv(tasks)
    for seed, index in ((4, 4), (None, 5), (None, 6)):
        observation, info = env.reset(seed=seed)
        expected = tasks.task("train", index)
        assert (info["task"], info["category"]) == (expected.id, expected.category)
        assert observation == tasks.environment().reset(expected).text
    _, info = env.reset(seed=1, options={"split": "heldout"})
    assert info["task"] == tasks.task("heldout", 1).id
    env.close()
    env.close()


def test_a_step_has_what_the_environment_answers():
    tasks = CorridorTasks(CorridorOptions(turns=1))
    env = TaskSetEnv(tasks)
    _, info = env.reset(seed=0)
    observation, reward, terminated, truncated, after = env.step(info["admissible"][0])
    assert observation in env.observation_space
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (after["wellformed"], after["success"]) == (True, False)


def test_a_step_without_a_task_and_a_wrong_option_are_refused():
    env = TaskSetEnv(CorridorTasks())
    with pytest.raises(SessionError, match="call reset first"):
        env.step("right")
    with pytest.raises(OptionError, match="split as train or heldout"):
        env.reset(options={"split": "test"})
