from dataclasses import replace

import pytest

from agentrl_envs.env import content_id, split_of
from agentrl_envs.errors import OptionError, TaskError
from agentrl_envs.task_list import TaskList, interleaved


class Numbers(TaskList):
    name = "numbers"


def test_each_prefix_of_interleaved_groups_has_them_in_about_their_shares():
    assert interleaved([[], ["a"], [1, 2, 3]]) == [1, "a", 2, 3]
    assert interleaved([["a", "b"], [1, 2, 3, 4, 5, 6]]) == [1, "a", 2, 3, 4, "b", 5, 6]


def test_tasks_are_dealt_by_content_and_equal_contents_are_one_task():
    numbers = Numbers({"number": number % 40} for number in range(80))
    assert numbers.size("train") + numbers.size("heldout") == 40
    for split in ("train", "heldout"):
        task = numbers.task(split, 0)
        assert task == numbers.task(split, numbers.size(split))
        assert task.id == content_id("numbers", task.payload)
        assert split_of(task.id) == split


def test_the_content_of_a_task_is_given_for_own_tasks_only():
    numbers = Numbers({"number": number} for number in range(40))
    one, other = numbers.task("train", 0), numbers.task("train", 1)
    assert numbers.content(one) == one.payload
    for wrong in (replace(one, payload=other.payload), replace(one, id="numbers-0123456789abcdef")):
        with pytest.raises(TaskError, match="is not a task of numbers with these options"):
            numbers.content(wrong)


def test_too_few_tasks_for_two_splits_are_refused():
    with pytest.raises(OptionError, match="1 tasks leave a split without one; give more tasks"):
        Numbers([{"number": 1}])
