"""The sites of this package, as the environment plays them without any option."""

import pytest
from web_pages import needs_chromium

from agentrl_envs.environments.web import WebOptions, WebTasks
from agentrl_envs.environments.web_sites import SITES, Click, Fill, generated_tasks

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def tasks() -> WebTasks:
    return WebTasks(WebOptions(text="terse", max_clicks=1))


def test_tasks_are_split_by_their_content_and_cover_every_site(tasks):
    splits = {
        split: [tasks.task(split, index) for index in range(tasks.size(split) or 0)]
        for split in ("train", "heldout")
    }
    ids = {split: {task.id for task in found} for split, found in splits.items()}
    assert not ids["train"] & ids["heldout"]
    every = WebTasks()
    categories = {every.task("heldout", index).category for index in range(every.size("heldout"))}
    assert categories == {*SITES, "mixed"}


@pytest.mark.parametrize("category", ["shopping", "reddit", "wikipedia"])
def test_a_task_of_one_click_is_solved_in_the_terse_form(tasks, category):
    sought = next(
        each
        for each in generated_tasks(0)
        if each.category == category and each.clicks == 1 and not isinstance(each.moves[0], Fill)
    )
    own = (tasks.task(split, i) for split in ("train", "heldout") for i in range(tasks.size(split)))
    task = next(each for each in own if each.payload["config"]["intent"] == sought.config["intent"])
    move = sought.moves[0]
    assert isinstance(move, Click)
    environment = tasks.environment()
    offered = environment.reset(task).admissible or ()
    wanted = [action for action in offered if action == f"click {move.name.lower()}"]
    offered = environment.step(wanted[-1]).observation.admissible or ()
    answer = str(sought.moves[-1].text).lower()
    ends = [action for action in offered if action.replace("stop", "").strip() == answer]
    assert environment.step(ends[0] if ends else "stop").success
    environment.close()
