from __future__ import annotations

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS
from agentrl_envs.environments.web_sites.login import sign_in, signed_in


def test_a_login_cookie_is_valid_on_its_own_site_only():
    account = ACCOUNTS["reddit"]
    cookie = sign_in("reddit", account.username, account.password)
    assert signed_in("reddit", cookie) == account.username
    assert signed_in("gitlab", cookie) == ""


def test_a_wrong_password_and_a_made_up_cookie_sign_nobody_in():
    assert sign_in("reddit", ACCOUNTS["reddit"].username, "wrong") is None
    assert signed_in("reddit", "é") == signed_in("reddit", None) == signed_in("map", "x") == ""
