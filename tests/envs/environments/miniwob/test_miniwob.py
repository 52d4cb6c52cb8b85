import re
from dataclasses import replace

import pytest
from web_pages import needs_chromium

from agentrl_envs.conformance.check import check
from agentrl_envs.env import Task
from agentrl_envs.environments.miniwob import MiniWobOptions, MiniWobTasks
from agentrl_envs.environments.miniwob.pages import pages
from agentrl_envs.errors import TaskError

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def tasks() -> MiniWobTasks:
    return MiniWobTasks(MiniWobOptions(tasks=("enter-text", "click-button"), seeds=60))


def first_of(tasks: MiniWobTasks, category: str) -> Task:
    size = tasks.size("train") or 0
    found = (tasks.task("train", index) for index in range(size))
    return next(task for task in found if task.category == category)


def test_the_pages_own_script_gives_the_reward(tasks):
    environment = tasks.environment()
    text = environment.reset(first_of(tasks, "enter-text")).text
    name = re.search(r"goal enter (\w+) into", text)
    assert name is not None
    step = environment.step(f"type unnamed {name[1]}")
    assert (step.reward, step.terminated) == (0.0, False)
    step = environment.step("click submit")
    assert (step.reward, step.raw_score, step.terminated, step.success) == (1.0, 1.0, True, True)
    environment.close()


def test_a_wrong_action_ends_the_task_with_a_raw_score_of_minus_1_and_no_reward(tasks):
    environment = tasks.environment()
    environment.reset(first_of(tasks, "enter-text"))
    step = environment.step("click submit")
    assert (step.reward, step.raw_score, step.terminated, step.success) == (0.0, -1.0, True, False)
    environment.close()


def test_a_task_of_another_seed_is_refused(tasks):
    task, other = tasks.task("train", 0), tasks.task("train", 2)
    environment = tasks.environment()
    with pytest.raises(TaskError, match="use the version of miniwob that dealt the task"):
        environment.reset(replace(task, payload=other.payload))
    environment.close()


def test_seeds_of_the_same_content_are_one_task(tasks):
    alike = MiniWobTasks(MiniWobOptions(tasks=("click-test-2",), seeds=30))
    assert (alike.size("train") or 0) + (alike.size("heldout") or 0) == 1


def test_an_unknown_page_is_an_error_that_lists_the_known_ones():
    assert len(pages()) > 100
    with pytest.raises(TaskError, match=r"no page is called 'dance'; known are .*click-button"):
        MiniWobTasks(MiniWobOptions(tasks=("dance",)))


@pytest.mark.slow
def test_miniwob_keeps_the_environment_contract():
    tasks = MiniWobTasks(MiniWobOptions(tasks=("enter-text",), seeds=20, turn_limit=40))
    report = check(tasks, tasks=1)
    assert report.passed, str(report)
