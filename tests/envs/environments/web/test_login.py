"""Logging in by the form of a site."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from web_pages import Site, needs_chromium

from agentrl_envs.browser.thread import BrowserThread
from agentrl_envs.environments.web.login import Logins, state_of
from agentrl_envs.environments.web.options import Account
from agentrl_envs.environments.web.sites import Addresses
from agentrl_envs.errors import SessionError, TaskError

pytestmark = needs_chromium


@pytest.fixture
def thread(site: Site) -> Iterator[BrowserThread]:
    running = BrowserThread(frozenset({site.host}))
    yield running
    running.close()


def cookies(thread: BrowserThread, site: Site, **account: str) -> list[tuple[str, str]]:
    """Names and values of the cookies after a login to the site."""
    accounts = {"shopping": Account(username="ann", **account)}
    logins = Logins(thread, Addresses({"shopping": site.url}), accounts)
    state = state_of(thread.run(logins.of(["shopping"]), 60))
    return [(each["name"], each["value"]) for each in state["cookies"]]


def test_a_page_after_the_login_that_asks_its_site_again_and_again_is_no_obstacle(thread, site):
    assert cookies(thread, site, password="secret") == [("user", f"ann-{site.logins}")]
    assert thread.bounded == 0


def test_the_password_may_be_in_a_variable(thread, site, monkeypatch):
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    given = {"password_env": "SHOP_PASSWORD", "password": "wrong"}
    assert cookies(thread, site, **given) == [("user", f"ann-{site.logins}")]


def test_a_password_whose_variable_is_not_set_is_an_error_that_names_it(thread, site, monkeypatch):
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    logins = site.logins
    with pytest.raises(
        TaskError, match=r"^accounts\.shopping\.password_env: SHOP_PASSWORD is not set; set the"
    ):
        cookies(thread, site, password_env="SHOP_PASSWORD")
    assert site.logins == logins


def test_a_wrong_password_is_an_error_that_names_the_account(thread, site):
    with pytest.raises(TaskError, match=r"accounts\.shopping: .*refused the account 'ann'"):
        cookies(thread, site, password="wrong")


def test_a_login_page_that_the_site_does_not_give_is_an_error_that_names_it(thread, site):
    with pytest.raises(SessionError, match=r"/broken: cannot log in: .*the site answered 500"):
        cookies(thread, site, password="secret", path="/broken")


@pytest.mark.parametrize(
    ("max_age_s", "made"),
    [
        (None, 1),  # a session cookie
        (1500, 1),  # 600 s more than the bound, in case the machine is busy
        (899, 3),
        (60, 3),
    ],
)
def test_a_login_is_made_again_if_its_cookie_expires_within_fifteen_minutes(
    thread, site, max_age_s, made
):
    site.max_age_s = max_age_s
    accounts = {"shopping": Account(username="ann", password="secret")}
    logins = Logins(thread, Addresses({"shopping": site.url}), accounts)
    first = site.logins + 1
    given = [thread.run(logins.of(["shopping"]), 60)[0] for _ in range(3)]
    values = [one.state["cookies"][0]["value"] for one in given]
    numbers = [first] * 3 if made == 1 else [first, first + 1, first + 2]
    assert values == [f"ann-{number}" for number in numbers]
    assert logins.count == made
