from dataclasses import replace

import pytest
from text_episode import episode

from agentrl_components.evaluation.summary import heldout_result
from agentrl_components.trajectory.record import Ending


def played(task: int, sample: int, *, success: bool = False):
    return replace(episode(("a", "b", 0.0, True), success=success), group=task, sample=sample)


@pytest.mark.parametrize("samples", [1, 2])
def test_no_success_in_30_tasks_leaves_up_to_11_percent_however_often_they_are_tried(samples):
    # Wilson for 0 of 30: 3.841459 / 30 / (1 + 3.841459 / 30) = .1135
    episodes = [played(task, sample) for task in range(30) for sample in range(samples)]
    found = heldout_result("policy", episodes, samples)
    assert (found.success, found.low, found.n) == (0.0, 0.0, 30)
    assert found.high == pytest.approx(0.1135, abs=1e-4)
    assert found.categories["babyai/UnlockPickup"].high == found.high


def test_pass_at_k_is_reported_for_powers_of_two_and_for_all_samples():
    """One of two tasks is solved once in five tries: pass@k of it is k / 5."""
    episodes = [played(task, i, success=task + i == 0) for task in range(2) for i in range(5)]
    found = heldout_result("policy", episodes, 5)
    assert found.pass_at == pytest.approx({1: 0.1, 2: 0.2, 4: 0.4, 5: 0.5})
    assert heldout_result("policy", episodes[:4], 4).pass_at.keys() == {1, 2, 4}
    assert heldout_result("policy", episodes[:1], 1).pass_at == {}


def test_pass_at_k_is_left_out_if_no_task_was_tried_k_times():
    """Of four tries each, two are lost in both tasks; the first is solved once in the other two."""
    tries = [played(task, i, success=task + i == 0) for task in range(2) for i in range(4)]
    episodes = [replace(e, ending=Ending.LOST) if e.sample >= 2 else e for e in tries]
    assert heldout_result("policy", episodes, 4).pass_at == {1: 0.25, 2: 0.5}


def test_a_lost_episode_does_not_give_a_binary_reward_a_mean_score_of_its_own():
    """Of four tries each, one of the first task is lost, its other three succeed, and the second
    task always fails: the mean over tasks is 1 / 2, that over episodes 3 / 7."""
    tries = [played(task, i, success=task == 0) for task in range(2) for i in range(4)]
    scored = [replace(e, score=float(e.success), raw_score=10 * float(e.success)) for e in tries]
    found = heldout_result("policy", [replace(scored[0], ending=Ending.LOST), *scored[1:]], 4)
    assert (found.success, found.score, found.raw_score, found.lost) == (0.5, 0.5, 5.0, 1)
    assert found.graded_score is None


def limited(**limits: int):
    """The result of an episode in each environment with this turn limit."""
    one = episode(("a", "b", 0.0, True))
    episodes = [replace(one, environment=name, max_turns=turns) for name, turns in limits.items()]
    return heldout_result("policy", episodes, 1)


def test_the_turn_limits_of_environments_are_part_of_the_result_where_they_differ():
    found = limited(rooms=3, crafting=16)
    assert (found.max_turns, found.turn_limits) == (16, {"rooms": 3, "crafting": 16})
    assert found.turns_allowed == "turns allowed: 3 in rooms, 16 in crafting"
    same = limited(rooms=8, crafting=8)
    assert (same.max_turns, same.turn_limits, same.turns_allowed) == (8, {}, "8 turns allowed")
