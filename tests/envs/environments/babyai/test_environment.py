import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_envs.env import Task
from agentrl_envs.environments.babyai import LEVELS, BabyAIOptions, BabyAITasks
from agentrl_envs.errors import SessionError, TaskError

TASKS = BabyAITasks()
AGENTGYM = BabyAITasks(BabyAIOptions(text="agentgym"))
SESSION = TASKS.environment()
REACT_SESSION = AGENTGYM.environment()
SESSION.reset(TASKS.task("train", 0))
REACT_SESSION.reset(TASKS.task("train", 0))


def play(tasks, index, seed, turns=15):
    env, rng = tasks.environment(), random.Random(seed)
    seen = env.reset(tasks.task("train", index))
    trace = [seen]
    for _ in range(turns):
        step = env.step(rng.choice(seen.admissible))
        seen = step.observation
        trace.append(step)
        if step.terminated or step.truncated:
            break
    return trace


def solvable_task(tasks, category, action=r"pick up"):
    """A task that its first action solves, and that action."""
    env = tasks.environment()
    for index in range(400):
        task = tasks.task("train", index)
        if task.category == category:
            for choice in env.reset(task).admissible:
                env.reset(task)
                if choice.startswith(action) and env.step(choice).success:
                    return task, choice
    raise AssertionError("no such task")


@given(st.text())
def test_terse_form_answers_any_text(text):
    step = SESSION.step(text)
    assert step.reward in (0.0, 1.0)
    assert step.observation.text


@given(st.text(), st.sampled_from(["Action: ", "Thought: x\nAction:\n", ""]))
def test_react_form_answers_any_text(text, head):
    assert REACT_SESSION.step(head + text).observation.text


@pytest.mark.parametrize(
    ("text", "compat"), [("terse", "none"), ("agentgym", "none"), ("agentgym", "agentgym")]
)
def test_every_admissible_action_is_accepted(text, compat):
    tasks = BabyAITasks(BabyAIOptions(levels=LEVELS, text=text, compat=compat))
    for index in range(2 * len(LEVELS)):
        first, *steps = play(tasks, index, index)
        assert len(set(first.admissible)) == len(first.admissible) > 0
        assert all(step.wellformed for step in steps)


def test_object_actions_achieve_their_goals():
    checked = 0
    for index in range(60):
        env, rng = TASKS.environment(), random.Random(index)
        seen = env.reset(TASKS.task("train", index))
        for _ in range(8):
            action = rng.choice(seen.admissible)
            step = env.step(action)
            if step.terminated or step.truncated:
                break
            if action.startswith(("pick up", "go to", "toggle and")):
                assert step.achieved, action
                checked += 1
            seen = step.observation
    assert checked > 100


def test_equal_actions_give_equal_trajectories():
    for index in range(10):
        assert play(TASKS, index, 3) == play(TASKS, index, 3)


def test_reset_leaves_no_state_of_earlier_episodes():
    env, task, other = TASKS.environment(), TASKS.task("train", 0), TASKS.task("train", 5)
    fresh = env.reset(task)
    env.step("turn left")
    env.reset(other)
    assert env.reset(task) == fresh


def test_success_has_reward_one_and_terminates():
    task, action = solvable_task(TASKS, "PickupDist")
    env = TASKS.environment()
    env.reset(task)
    step = env.step(action)
    assert (step.reward, step.terminated, step.truncated) == (1.0, True, False)
    assert step.success
    assert 0.1 <= step.raw_score < 1.0
    assert step.observation.text.startswith("done ; see ")


def test_step_after_the_end_has_no_reward():
    task, action = solvable_task(TASKS, "PickupDist")
    env = TASKS.environment()
    env.reset(task)
    env.step(action)
    step = env.step(action)
    assert (step.reward, step.terminated, step.success) == (0.0, True, False)


def test_successful_step_achieves_the_mission():
    task, action = solvable_task(TASKS, "ActionObjDoor", "toggle and go through")
    env = TASKS.environment()
    goal = env.reset(task).text.removeprefix("goal ").split(" ; ")[0]
    assert goal in env.step(action).achieved


def test_refused_reply_does_not_change_the_state():
    env = TASKS.environment()
    first = env.reset(TASKS.task("train", 0))
    state = env.step("turn left").state
    step = env.step("sing")
    assert not step.wellformed
    assert step.state == state
    assert step.observation.text.startswith("unknown ; see ")
    env.step("turn right")
    assert first.text.endswith(env.step("sing").observation.text.removeprefix("unknown ; "))


def test_equal_hidden_states_have_equal_hashes():
    env = TASKS.environment()
    env.reset(TASKS.task("train", 0))
    hashes = [env.step("turn left").state for _ in range(8)]
    assert hashes[:4] == hashes[4:]
    assert len(set(hashes)) == 4


def test_minigrid_step_limit_truncates():
    env = TASKS.environment()
    env.reset(TASKS.task("train", 0))
    steps = [env.step("turn left") for _ in range(49)]
    assert [step.truncated for step in steps] == [False] * 48 + [True]
    assert not any(step.terminated for step in steps)
    assert steps[-1].observation.text.startswith("failed ; ")


def test_step_before_reset_raises_session_error():
    with pytest.raises(SessionError, match="before reset"):
        TASKS.environment().step("turn left")


def test_close_is_idempotent():
    env = TASKS.environment()
    env.reset(TASKS.task("train", 0))
    env.close()
    env.close()


def test_random_policy_solves_about_one_task_in_five_within_eight_turns():
    solved = 0
    env, rng = TASKS.environment(), random.Random(0)
    for index in [*range(400), *range(400)]:
        seen = env.reset(TASKS.task("train", index))
        for _ in range(8):
            step = env.step(rng.choice(seen.admissible))
            seen = step.observation
            if step.terminated or step.truncated:
                break
        solved += step.success
    assert 0.16 <= solved / 800 <= 0.25


def test_failed_reset_leaves_the_session_without_a_task():
    env = TASKS.environment()
    env.reset(TASKS.task("train", 0))
    with pytest.raises(TaskError):
        env.reset(Task(id="babyai-0", category="x", payload={}))
    with pytest.raises(SessionError):
        env.step("turn left")
