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
