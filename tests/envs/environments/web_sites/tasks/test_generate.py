from __future__ import annotations

import json
from collections import Counter

import httpx
import pytest
from site_browser import SiteBrowser, log_in

from agentrl_envs.environments.web_sites import SITES, generated_tasks, running_sites, task
from agentrl_envs.environments.web_sites.tasks.generate import TEMPLATES


def test_a_task_is_webarenas_json_object():
    config = next(t.config for t in generated_tasks(0) if t.template == "shop/wish")
    values = config["instantiation_dict"]
    assert json.loads(json.dumps(config)) == {
        "task_id": config["task_id"],
        "sites": ["shopping"],
        "require_login": True,
        "storage_state": "./.auth/shopping_state.json",
        "start_url": "__SHOPPING__/",
        "geolocation": None,
        "intent_template": "add the {{product}} in {{category}} to my wish list and show the list",
        "instantiation_dict": {"product": values["product"], "category": values["category"]},
        "intent": f"add the {values['product']} in {values['category']} to my wish list and "
        "show the list",
        "require_reset": True,
        "eval": {
            "eval_types": ["url_match", "program_html"],
            "reference_answers": None,
            "reference_url": "__SHOPPING__/wishlist",
            "program_html": [
                {
                    "url": "__SHOPPING__/wishlist",
                    "locator": "document.querySelector('#products').outerText",
                    "required_contents": {"must_include": [values["product"]]},
                }
            ],
            "url_note": "GOLD in PRED",
        },
    }


def test_tasks_cover_every_site_every_evaluator_and_one_to_seven_moves():
    tasks = generated_tasks(0)
    assert {t.category for t in tasks} == {*SITES, "mixed"}
    kinds = {"+".join(t.config["eval"]["eval_types"]) for t in tasks}
    assert kinds == {
        "string_match",
        "url_match",
        "program_html",
        "url_match+program_html",
        "string_match+url_match",
    }
    assert set(Counter(t.clicks for t in tasks)) == set(range(1, 8))
    assert len(tasks) > 1500


def test_all_tasks_of_a_seed_are_different_and_the_same_every_time():
    contents = [
        json.dumps({k: v for k, v in t.config.items() if k != "task_id"})
        for t in generated_tasks(0)
    ]
    assert len(set(contents)) == len(contents)
    assert generated_tasks.__wrapped__(0) == generated_tasks(0)
    assert task(0, 3).config["task_id"] == 3


def test_two_tasks_of_each_template_are_solved_by_their_moves_and_not_by_doing_nothing(web):
    tasks = generated_tasks(0, 2)
    assert len(tasks) > 1.9 * len(TEMPLATES)
    for each in tasks:
        browser = web.browser()
        browser.open(browser.real(each.config["start_url"]))
        assert not browser.solved(each.config, ""), each.config["intent"]
        assert browser.solved(each.config, browser.solve(each)), each.config["intent"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_up_to_24_tasks_of_each_template_are_solved_by_their_moves_and_not_by_doing_nothing(seed):
    with running_sites(seed) as sites, httpx.Client() as client:
        login = log_in(sites, client)
        for each in generated_tasks(seed, 24):
            browser = SiteBrowser(sites, client, login)
            browser.open(browser.real(each.config["start_url"]))
            assert not browser.solved(each.config, ""), each.config["intent"]
            assert browser.solved(each.config, browser.solve(each)), each.config["intent"]
