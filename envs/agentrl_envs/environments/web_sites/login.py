"""Signed login cookies: no server-side session, so a stored login is valid in any context."""

from __future__ import annotations

import hashlib
import hmac

from agentrl_envs.environments.web_sites.accounts import ACCOUNTS

_KEY = b"the accounts of the demonstration sites protect nothing"


def cookie_name(site: str) -> str:
    return f"{site}_login"


def sign_in(site: str, username: str, password: str) -> str | None:
    """The value of the login cookie; None if username or password is wrong."""
    account = ACCOUNTS.get(site)
    if account is None or (account.username, account.password) != (username, password):
        return None
    return _signature(site, username)


def signed_in(site: str, cookie: str | None) -> str:
    """The username that a login cookie is for. Empty: nobody is signed in."""
    account = ACCOUNTS.get(site)
    if account is None or cookie is None:
        return ""
    valid = hmac.compare_digest(cookie.encode(), _signature(site, account.username).encode())
    return account.username if valid else ""


def _signature(site: str, username: str) -> str:
    return hmac.new(_KEY, f"{site}\n{username}".encode(), hashlib.sha256).hexdigest()
