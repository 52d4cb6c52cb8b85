"""A Gymnasium environment, by its id, keeps the contract of an AgentRL environment."""

from __future__ import annotations

import pytest

from agentrl_envs import registry
from agentrl_envs.conformance.check import check
from agentrl_envs.environments.gymnasium_text import GymnasiumOptions, GymnasiumTasks
from agentrl_envs.errors import ContractError, OptionError, TaskError

COUNT = GymnasiumOptions(id="gymnasium_games:Count-v0", best_return=2.0, tasks=60)
NUMBERED = GymnasiumOptions(
    id="gymnasium_games:Numbered-v0",
    actions=("Up", "Down"),
    observation_key="said",
    best_return=2.0,
    tasks=60,
)


@pytest.mark.parametrize("options", [COUNT, NUMBERED], ids=["text", "numbers"])
def test_the_contract_is_kept(options: GymnasiumOptions):
    report = check(GymnasiumTasks(options), tasks=10)
    assert report.passed, str(report)


def test_rewards_are_shares_of_the_best_return():
    tasks = GymnasiumTasks(COUNT)
    session = tasks.environment()
    first = session.reset(tasks.task("train", 0))
    assert first.admissible == ("one more", "one less")
    half = session.step("Thought: up.\nAction: One more")
    done = session.step("one more")
    assert (half.reward, half.raw_score, half.terminated, half.success) == (0.5, 1.0, False, False)
    assert (done.reward, done.raw_score, done.terminated, done.success) == (0.5, 2.0, True, True)
    session.close()


@pytest.mark.parametrize(("best", "success"), [(1.0, True), (1.001, False)])
def test_a_full_return_that_is_a_sum_of_fractions_is_a_success(best, success):
    tasks = GymnasiumTasks(GymnasiumOptions(id="gymnasium_games:Tenths-v0", best_return=best))
    session = tasks.environment()
    session.reset(tasks.task("train", 0))
    steps = [session.step("one more") for _ in range(10)]
    assert steps[-1].raw_score == 0.9999999999999999  # ten times 0.1
    assert sum(step.reward for step in steps) == pytest.approx(1 / best, abs=1e-9)
    assert [step.success for step in steps] == [*[False] * 9, success]
    session.close()


def test_a_return_below_0_is_a_score_of_0():
    tasks = GymnasiumTasks(COUNT)
    session = tasks.environment()
    session.reset(tasks.task("train", 0))
    steps = [session.step("one less") for _ in range(2)]
    assert [(step.reward, step.raw_score) for step in steps] == [(0.0, -1.0), (0.0, -2.0)]
    assert (steps[1].terminated, steps[1].success) == (True, False)
    session.close()


def test_named_actions_are_numbers_of_a_discrete_space():
    tasks = GymnasiumTasks(NUMBERED)
    session = tasks.environment()
    assert session.reset(tasks.task("train", 0)).text.startswith("0 of 2, game ")
    assert session.step("down").observation.text.startswith("-1 of 2")
    assert session.step("left").wellformed is False
    session.close()


@pytest.mark.parametrize(
    ("reply", "wellformed"),
    [("Action: go", True), ("Action: go.", True), ("**Action:** `go`", False), ("", False)],
)
def test_marks_around_an_action_are_left_out_where_they_tell_no_two_apart(reply, wellformed):
    options = GymnasiumOptions(id=NUMBERED.id, actions=("go", "go."), observation_key="said")
    tasks = GymnasiumTasks(options)
    session = tasks.environment()
    session.reset(tasks.task("train", 0))
    assert session.step(reply).wellformed is wellformed
    session.close()
    other = GymnasiumTasks(NUMBERED)
    session = other.environment()
    session.reset(other.task("train", 0))
    assert session.step("**Action:** `up`.\nObservation: 1").wellformed
    session.close()


def test_a_task_is_a_seed_and_splits_are_disjoint():
    tasks = GymnasiumTasks(COUNT)
    train = {tasks.task("train", index).id for index in range(tasks.size("train"))}
    heldout = {tasks.task("heldout", index).id for index in range(tasks.size("heldout"))}
    assert len(train) + len(heldout) == len(train | heldout) == 60


def test_a_task_of_another_environment_is_refused():
    other = GymnasiumTasks(NUMBERED).task("train", 0)
    with pytest.raises(TaskError, match="is not a task of gymnasium_games:Count-v0"):
        GymnasiumTasks(COUNT).environment().reset(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"id": "nowhere:Game-v0"}, "nowhere:Game-v0: .*give the id that its package registers"),
        ({"id": "gymnasium_games:Other-v0"}, "Other"),
        ({"id": NUMBERED.id}, "Numbered-v0 has 2 actions, and 0 names are given"),
        ({"id": "CartPole-v1", "actions": ["a", "a"]}, "give each action a different name"),
        ({"id": "Pendulum-v1"}, "the actions of Pendulum-v1 are Box; use an environment with Text"),
    ],
)
def test_an_environment_that_cannot_be_used_is_named_with_the_fix(options, message: str):
    with pytest.raises(OptionError, match=message):
        registry.task_set("gymnasium", options)


def test_observations_that_are_no_text_are_named():
    options = GymnasiumOptions(id="CartPole-v1", actions=("left", "right"))
    tasks = GymnasiumTasks(options)
    with pytest.raises(ContractError, match="CartPole-v1: an observation is ndarray"):
        tasks.environment().reset(tasks.task("train", 0))
