from __future__ import annotations

import re

from agentrl_envs.environments.web_sites import generated_tasks, site_words


def test_the_words_of_intents_content_and_pages_are_in_the_vocabulary():
    words = set(site_words(0))
    intents = " ".join(each.config["intent"] for each in generated_tasks(0))
    assert set(re.findall("[a-z0-9]+", intents)) <= words
    assert {"kettle", "pharmacy", "checkout", "wish", "unsubscribe", "99"} <= words


def test_words_on_pages_that_are_not_in_the_vocabulary_are_numbers(web):
    browser, words = web.browser(), set(site_words(0))
    for page in (
        "shopping/",
        "shopping/orders",
        "shopping_admin/orders",
        "gitlab/",
        "map/",
        "reddit/",
    ):
        site, _, rest = page.partition("/")
        browser.open(f"{web.sites[site]}/{rest}")
        texts = [text for text, _ in browser.page.links] + list(browser.page.texts.values())
        found = set(re.findall("[a-z0-9]+", " ".join(texts).lower()))
        assert {word for word in found - words if not word.isdigit()} == set()
