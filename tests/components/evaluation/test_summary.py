from dataclasses import replace

import pytest
from text_episode import episode

from agentrl_components.evaluation.summary import heldout_result


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
