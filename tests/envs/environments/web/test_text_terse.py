import pytest
from web_pages import Site, needs_chromium
from web_tasks import config, task, task_set

from agentrl_envs.conformance.check import check
from agentrl_envs.env import split_of
from agentrl_envs.environments.web.task_config import task_of

pytestmark = needs_chromium


def terse(folder, site: Site, tasks=None, **options):
    return task_set(folder, site.url, tasks, text="terse", **options)


def test_a_page_is_a_few_words_and_a_list_of_actions(site, tmp_path):
    environment = terse(tmp_path, site).environment()
    first = environment.reset(task(start="__SHOPPING__/mug"))
    assert first.text == (
        "goal tell the price of the red mug ; page mug ; text red mug , 12 , dishwasher , microwave"
        " ; field amount ; text 2"
    )
    assert first.admissible == (
        *("type amount tell", "type amount price", "type amount red mug", "type amount red"),
        *("type amount mug", "stop", "stop red mug", "stop 12", "stop dishwasher"),
        *("stop microwave", "stop 2"),
    )
    environment.close()


def test_an_answer_is_the_text_in_view_and_not_its_spelling(site, tmp_path):
    environment = terse(tmp_path, site).environment()
    environment.reset(task(start="__SHOPPING__/mug"))
    assert environment.step("stop 12").success
    environment.close()


def test_a_text_is_typed_and_sent_where_the_form_has_one_field(site, tmp_path):
    environment = terse(tmp_path, site).environment()
    values = {"instantiation_dict": {"thing": "red mug"}}
    environment.reset(task_of({**config(intent="look for the red mug"), **values}))
    step = environment.step("type search red mug")
    assert step.observation.text == ("page search ; text results for red mug")
    environment.close()


def test_only_the_first_observation_states_the_goal_so_that_another_can_take_its_place(
    site, tmp_path
):
    tasks = terse(tmp_path, site)
    environment = tasks.environment()
    first = environment.reset(task(start="__SHOPPING__/mug")).text
    assert tasks.relabel(first, "open the page of the mug").startswith(
        "goal open the page of the mug ; page mug ;"
    )
    assert "goal" not in environment.step("type amount mug").observation.text.split()
    environment.close()


@pytest.mark.slow
def test_the_terse_form_keeps_the_environment_contract(site, tmp_path):
    """On a small page: each rule plays it many times."""
    found: dict[str, dict] = {}
    for number in range(50):
        each = config(intent=f"tell price {number}", start="__SHOPPING__/login")
        found.setdefault(split_of(task_of(each).id), each)
    tasks = terse(tmp_path, site, list(found.values()), turn_limit=40)
    report = check(tasks, tasks=1)
    assert report.passed, str(report)
