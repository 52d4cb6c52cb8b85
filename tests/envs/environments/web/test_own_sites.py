"""Generated tasks of the package's own sites, played in Chromium."""

from __future__ import annotations

import re

import pytest
from web_pages import needs_chromium

from agentrl_envs.env import Step, Task
from agentrl_envs.environments.web import WebOptions, WebTasks
from agentrl_envs.environments.web.task_config import goals_by_address, task_of
from agentrl_envs.environments.web.text_terse import TerseForm
from agentrl_envs.environments.web_sites import (
    Answer,
    Click,
    Fill,
    Goto,
    SiteTask,
    generated_tasks,
)
from agentrl_envs.errors import TaskError


def words(text: str) -> str:
    return " ".join(re.findall("[a-z0-9]+", text.lower()))


def first_of(template: str) -> SiteTask:
    return next(task for task in generated_tasks(0) if task.template == template)


def dealt(task: SiteTask) -> Task:
    return task_of(task.config, task.category)


def solve(task: SiteTask) -> Step:
    """Make the moves of a task as actions of the terse form. Typing into the only field of a form
    sends it, so a button that is gone was not needed."""
    environment = WebTasks(WebOptions(text="terse")).environment()
    observation = environment.reset(dealt(task))
    try:
        for move in task.moves:
            menu = observation.admissible or ()
            if isinstance(move, Click):
                wanted = rf"click \d+ {words(move.name)}"
            elif isinstance(move, Fill):
                field = re.search(rf"field (\d+) {words(move.label)}", observation.text)
                assert field is not None
                wanted = f"type {field[1]} {words(move.text)}"
            elif isinstance(move, Goto):
                wanted = f"go to {move.url.strip('_/').lower()}"
            else:
                assert isinstance(move, Answer)
                wanted = f"stop {words(move.text)}".strip()
            offered = [action for action in menu if re.fullmatch(wanted, action)]
            if offered:
                step = environment.step(offered[-1])
                observation = step.observation
            else:
                assert isinstance(move, Click), wanted
        return step
    finally:
        environment.close()


@needs_chromium
@pytest.mark.parametrize(
    "template", ["map/open-kind", "shop/add-several", "code/file-issue", "wiki/tell-linked"]
)
def test_the_moves_of_a_generated_task_solve_it_in_the_browser(template: str):
    step = solve(first_of(template))
    assert (step.success, step.reward, step.terminated) == (True, 1.0, True)


@needs_chromium
def test_a_page_that_solves_another_task_is_an_achieved_goal():
    tasks = WebTasks(WebOptions(text="terse", templates=("map/open-kind",)))
    environment = tasks.environment()
    first = environment.reset(dealt(first_of("map/open-kind"))).text
    home = next(a for a in environment.step("nothing").observation.admissible or () if "map" in a)
    observation = environment.step(home).observation
    cafe = next(a for a in observation.admissible or () if a.endswith("cafe"))
    step = environment.step(cafe)
    environment.close()
    assert step.achieved == ("show all places of the kind cafe",)
    relabelled = tasks.relabel(first, step.achieved[0])
    assert relabelled.startswith("goal show all places of the kind cafe ; page ")
    assert relabelled.partition(" ; page ")[2] == first.partition(" ; page ")[2]


def test_goals_are_those_of_tasks_that_an_address_alone_solves():
    tasks = [dealt(first_of(name)) for name in ("map/open-listed", "shop/wish", "map/tell-phone")]
    place = first_of("map/open-listed").config
    assert goals_by_address(tasks) == {place["eval"]["reference_url"]: (place["intent"],)}


def test_a_text_without_a_goal_is_not_relabelled():
    with pytest.raises(TaskError, match="holds no goal"):
        TerseForm(None).relabel("page home", "show all cafes")
