"""Sites that serve the contents of the seeds 4, 5 and 6."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import httpx
import pytest
from site_browser import SiteBrowser, log_in

from agentrl_envs.environments.web_sites import (
    generated_tasks,
    running_sites,
    selected,
    tasks_of_contents,
)
from agentrl_envs.environments.web_sites.selection import content_of, selecting

CONTENTS = range(4, 7)


@pytest.fixture(scope="module")
def sites() -> Iterator[Mapping[str, str]]:
    with running_sites(CONTENTS[0], contents=len(CONTENTS)) as sites:
        yield sites


@pytest.fixture
def browser(sites: Mapping[str, str]) -> Iterator[SiteBrowser]:
    """A context without cookies."""
    with httpx.Client() as client:
        yield SiteBrowser(sites, client)


def products(seed: int) -> set[str]:
    tasks = (each for each in generated_tasks(seed) if each.template == "shop/open-listed")
    return {each.moves[0].name for each in tasks}


def shown(browser: SiteBrowser) -> set[str]:
    return {name for name, href in browser.page.links if "/product/" in href}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_start_page_selects_a_content_and_leads_to_the_page(browser, sites, content):
    browser.open(f"{sites['shopping']}/content/{content}/category/toys")
    assert browser.url == f"{sites['shopping']}/category/toys"
    assert len(shown(browser)) == 8
    assert shown(browser) < products(content)


def test_a_context_that_selects_none_sees_the_first_content(browser, sites):
    browser.open(f"{sites['shopping']}/category/toys")
    assert shown(browser) < products(4)


def test_the_selected_content_is_that_of_every_site(browser, sites):
    browser.open(f"{sites['map']}/content/6/")
    browser.open(f"{sites['shopping']}/category/office")
    assert shown(browser) < products(6)


def test_a_content_that_is_not_served_is_a_page_that_is_missing(browser, sites):
    for content in (3, 7, 10**12):
        browser.open(f"{sites['shopping']}/content/{content}/category/toys")
        assert browser.status == 404
    browser.open(f"{sites['shopping']}/category/toys")
    assert shown(browser) < products(4)


def test_changes_of_a_session_are_made_to_its_content_and_end_with_another_selection(
    browser, sites
):
    name = min(products(5) - products(4))
    product = f"{sites['shopping']}/content/5/product/{name.replace(' ', '-')}"
    browser.open(product)
    browser.click("Add to cart")
    assert name in browser.page.texts["#cart"]
    browser.open(product)
    browser.open(f"{sites['shopping']}/cart")
    assert browser.page.texts["#cart"] == "The cart is empty."


def test_a_cookie_that_names_no_content_selects_the_first():
    assert [content_of(cookie, CONTENTS) for cookie in (None, "", "x", "3", "7", "-5")] == [4] * 6
    assert content_of("5", CONTENTS) == 5


def test_the_content_of_a_start_page_can_be_read_from_it():
    assert selecting(3, "__SHOPPING__/") == "__SHOPPING__/content/3/"
    assert selected("__SHOPPING__/content/3/category/toys") == 3
    assert selected("__SHOPPING__/category/toys") is None
    assert selected("__REDDIT__/post/3") is None


def test_tasks_are_those_of_each_content_in_turn():
    first, second = generated_tasks(4), generated_tasks(5)
    tasks = tasks_of_contents(range(4, 6))
    assert len(tasks) == len(first) + len(second)
    assert tasks[0] == first[0]
    assert tasks[1].moves == second[0].moves
    assert selected(tasks[1].config["start_url"]) == 5
    assert tasks_of_contents(range(4, 5)) == list(first)


@pytest.mark.parametrize("index", [1, 4, 7])
def test_tasks_of_another_content_are_solved_by_their_moves(sites, index):
    with httpx.Client() as client:
        browser = SiteBrowser(sites, client, log_in(sites, client))
        for task in tasks_of_contents(CONTENTS)[index :: 3 * 20][:40]:
            context = SiteBrowser(sites, client, browser.cookies)
            answer = context.solve(task)
            assert context.solved(task.config, answer), task.config["intent"]
