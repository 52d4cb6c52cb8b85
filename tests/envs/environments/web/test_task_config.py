import json
import logging

import pytest
from pydantic import ValidationError
from web_tasks import config, task_set

from agentrl_envs.env import Split, split_of
from agentrl_envs.environments.web import WebOptions, WebTasks
from agentrl_envs.environments.web.task_config import TaskConfig, config_of, task_of
from agentrl_envs.errors import TaskError


def test_the_number_of_a_task_is_not_its_content():
    assert task_of({**config(), "task_id": 1}).id == task_of({**config(), "task_id": 2}).id
    assert task_of(config(intent="other")).id != task_of(config()).id


def test_of_phrases_that_begin_at_the_same_place_the_shorter_one_is_first():
    """Regression: the hash seed of the process decided their order."""
    lengths = (6, 2, 8, 1, 5, 7, 3, 4)
    filled = {str(length): "gardening"[:length] for length in lengths} | {"n": "9 books"}
    parsed = TaskConfig.model_validate(
        {**config(intent="find 9 books on gardening"), "instantiation_dict": filled}
    )
    assert parsed.phrases == (
        "9 books",
        *("g", "ga", "gar", "gard", "garde", "garden", "gardeni", "gardenin"),
    )


SPLITS: tuple[Split, ...] = ("train", "heldout")


@pytest.mark.parametrize(("seed", "contents"), [(0, 1), (1, 1), (0, 3)])
def test_no_held_out_task_is_a_training_task_with_another_start_page_or_content(seed, contents):
    tasks = WebTasks(WebOptions(seed=seed, contents=contents))
    goals = {
        split: {
            json.dumps([each[name] for name in ("sites", "intent")])
            for index in range(tasks.size(split) or 0)
            for each in [tasks.task(split, index).payload["config"]]
        }
        for split in SPLITS
    }
    assert goals["train"]
    assert goals["heldout"]
    assert not goals["train"] & goals["heldout"]


@pytest.mark.parametrize("split", SPLITS)
def test_the_id_of_a_task_is_in_its_split(split):
    task = task_of(config(), split=split)
    assert split_of(task.id) == split
    assert config_of(task).intent == "tell the price of the red mug"
    assert len({task_of(config(start=f"__SHOPPING__/{n}")).id for n in range(9)}) == 9


def test_a_task_of_several_sites_is_mixed():
    assert task_of(config()).category == "shopping"
    assert task_of(config(sites=("shopping", "map"))).category == "mixed"


def test_a_task_that_is_not_in_webarenas_form_is_an_error_that_names_the_field():
    with pytest.raises(TaskError, match=r"task 0: eval\.eval_types: .*see WebArena's form"):
        task_of({**config(), "eval": {"eval_types": []}})


@pytest.mark.parametrize(
    ("evaluation", "reason"),
    [
        ({"reference_answers": {"fuzzy_match": ["twelve"]}}, "set the option judge"),
        (
            {
                "program_html": [
                    {
                        "url": "func:shopping_get_latest_order_url()",
                        "locator": "",
                        "required_contents": {"must_include": ["mug"]},
                    }
                ]
            },
            "func: helpers are not available",
        ),
        (
            {
                "program_html": [
                    {
                        "url": "last",
                        "locator": "document.querySelector('#price').value",
                        "prep_actions": ["document.querySelector('#more').click()"],
                        "required_contents": {"exact_match": "$12"},
                    }
                ]
            },
            "prep_actions, which are JavaScript, are not run",
        ),
    ],
)
def test_tasks_that_cannot_be_graded_are_left_out_with_a_warning(
    tmp_path, caplog, evaluation, reason
):
    tasks = [config(), config(intent="other", **evaluation)]
    found = task_set(tmp_path, "http://127.0.0.1:1", tasks)
    with caplog.at_level(logging.WARNING):
        assert (found.size("train") or 0) + (found.size("heldout") or 0) == 1
    assert reason in caplog.text
    assert "1 tasks are left out: 0" in caplog.text


def looked_at(url: str) -> dict:
    target = {"url": url, "locator": "", "required_contents": {"must_include": ["mug"]}}
    return {"program_html": [target]}


HOME = "__HOMEPAGE__"
OUTSIDE = "http://outside.example/mug"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"start": HOME}, f"start_url: {HOME} is on none of the sites"),
        ({"start": f"__SHOPPING__ |AND| {OUTSIDE}"}, f"start_url: {OUTSIDE} is on none"),
        ({"start": "http://["}, r"start_url: http://[ is on none"),
        (looked_at(f"{HOME}/mug"), f"eval.program_html.url: {HOME}/mug is on none"),
        ({"reference_url": OUTSIDE}, f"eval.reference_url: {OUTSIDE} is on none"),
        ({"reference_url": f"{HOME} |OR| {OUTSIDE}"}, f"eval.reference_url: {HOME} is on none"),
    ],
)
def test_a_task_on_a_page_that_is_on_none_of_the_sites_is_left_out(
    tmp_path, caplog, values, reason
):
    found = task_set(tmp_path, "http://127.0.0.1:1/shop", [config(), config(**values)])
    with caplog.at_level(logging.WARNING):
        assert (found.size("train") or 0) + (found.size("heldout") or 0) == 1
    assert reason in caplog.text


@pytest.mark.parametrize(
    "values",
    [
        {"start": "http://127.0.0.1:1/other"},
        {"start": "http://onestopmarket.com/mug"},
        looked_at("last"),
        looked_at("__SHOPPING__/mug"),
        {"reference_url": f"{OUTSIDE} |OR| __SHOPPING__/mug"},
        {"reference_url": "/mug"},
    ],
)
def test_a_task_on_the_host_of_a_site_is_dealt(tmp_path, values):
    found = task_set(tmp_path, "http://127.0.0.1:1/shop", [config(**values)])
    assert (found.size("train") or 0) + (found.size("heldout") or 0) == 1


def test_a_task_file_that_is_missing_or_no_json_is_an_error_that_names_it(tmp_path):
    found = task_set(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "tasks.json").write_text("{")
    with pytest.raises(TaskError, match=r"tasks\.json is no JSON"):
        found.size("train")
    (tmp_path / "tasks.json").unlink()
    with pytest.raises(TaskError, match=r"tasks\.json: No such file"):
        found.size("train")


def test_tasks_for_evaluation_only_are_all_held_out(tmp_path):
    given = [config(intent=f"tell price {number}") for number in range(20)]
    tasks = task_set(tmp_path, "http://shop.example", given, evaluation_only=True)
    assert (tasks.size("train"), tasks.size("heldout")) == (0, 20)
    assert {split_of(tasks.task("heldout", index).id) for index in range(20)} == {"heldout"}
    with pytest.raises(TaskError, match="evaluation_only: every task is held out"):
        tasks.task("train", 0)


def test_evaluation_only_without_a_task_file_is_refused():
    with pytest.raises(ValidationError, match="evaluation_only: holds out the tasks"):
        WebOptions(evaluation_only=True)
