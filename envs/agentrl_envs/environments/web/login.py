"""Logging in to sites: by their login form, once each for all sessions, and again when the login is
about to expire or the site has ended it, as it does when an agent signs out."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Cookie, Error, Page, StorageState

from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread, first_line
from agentrl_envs.environments.web.options import Account
from agentrl_envs.environments.web.sites import Addresses
from agentrl_envs.errors import SessionError, TaskError

RENEWED_BEFORE_S = 900.0
"""A state is made again when a cookie of it expires within so many seconds."""

FORM_TIMEOUT_S = 20.0

VIEWPORT = (1280, 720)


CookieKey = tuple[str, str, str]
"""Name, domain and path."""


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """One login to a site."""

    site: str
    state: StorageState
    marks: Mapping[CookieKey, str]
    """Values of the cookies that stay the same as long as the site knows the login."""


def state_of(logins: Iterable[Login]) -> StorageState:
    """The cookies and storage of a browser with these logins."""
    cookies, origins = [], []
    for login in logins:
        cookies += login.state.get("cookies", [])
        origins += login.state.get("origins", [])
    return StorageState(cookies=cookies, origins=origins)


class Logins:
    """Logins by site, of one browser. Its methods run on the browser's event loop."""

    def __init__(
        self, thread: BrowserThread, addresses: Addresses, accounts: Mapping[str, Account]
    ) -> None:
        self._thread = thread
        self._addresses = addresses
        self._accounts = accounts
        self._kept: dict[str, Login] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.count = 0
        """Number of logins that were made."""

    async def of(self, sites: Iterable[str]) -> tuple[Login, ...]:
        """Logins to those of `sites` that have an account, made where none is kept."""
        return tuple([await self._login(site) for site in sites if site in self._accounts])

    def ended(self, logins: Sequence[Login], cookies: Sequence[Cookie]) -> bool:
        """Whether a site has ended one of `logins`, by the cookies of a session that began with
        them. Such a login is forgotten, so that the next session logs in again."""
        given = _values(state_of(logins).get("cookies", []))  # sites of one host may share a cookie
        changed = given.items() - _values(cookies).items()
        gone = [login for login in logins if login.marks.items() & changed]
        for login in gone:
            if self._kept.get(login.site) is login:
                del self._kept[login.site]
        return bool(gone)

    async def _login(self, site: str) -> Login:
        async with self._locks.setdefault(site, asyncio.Lock()):
            if site not in self._kept or _expires_soon(self._kept[site].state):
                self._kept[site] = await self._log_in(site)
                self.count += 1
            return self._kept[site]

    async def _log_in(self, site: str) -> Login:
        account = self._accounts[site]
        url = f"{self._addresses.sites[site]}{account.path}"
        session = BrowserSession(self._thread, *VIEWPORT)
        try:
            try:
                await session.begin([url], None)
                await _fill(session.page, account.username, password_of(site, account))
                undone = await session.settle()
            except (Error, SessionError) as error:
                raise SessionError(f"{url}: cannot log in: {first_line(error)}") from None
            if undone:
                raise SessionError(f"{url}: cannot log in: {undone}")
            if await session.page.locator("input[type=password]:visible").count():
                raise TaskError(
                    f"accounts.{site}: {url} refused the account {account.username!r}; correct its "
                    "username or password"
                )
            state = await session.page.context.storage_state()
            with suppress(SessionError):  # the page may exist as the answer to a form only
                await session.visit(session.page.url)
                await session.settle()
            return Login(site, state, _marks(state, await session.cookies()))
        finally:
            await session.end()


async def _fill(page: Page, username: str, password: str) -> None:
    """Fill in the form with the page's first password field, and send it."""
    page.set_default_timeout(FORM_TIMEOUT_S * 1e3)
    field = page.locator("input[type=password]").first
    form = page.locator("form", has=page.locator("input[type=password]")).first
    kinds = "input:not([type]), input[type=text], input[type=email]"
    await form.locator(kinds).first.fill(username)
    await field.fill(password)
    await field.press("Enter")


def password_of(site: str, account: Account) -> str:
    """The password, from the options or the environment. Raises `TaskError` if it is missing."""
    if not account.password_env:
        return account.password
    if account.password_env not in os.environ:
        raise TaskError(
            f"accounts.{site}.password_env: {account.password_env} is not set; set the environment "
            "variable where the environment runs"
        )
    return os.environ[account.password_env]


def _marks(state: StorageState, later: Sequence[Cookie]) -> Mapping[CookieKey, str]:
    """The cookies of a login that a page load has left as they were. Scripts change cookies of
    theirs, so only those that they cannot read count, if there are any."""
    stable = _values(later).items() & _values(state.get("cookies", [])).items()
    hidden = {_key(cookie) for cookie in later if cookie.get("httpOnly")}
    return {key: value for key, value in stable if key in hidden} or dict(stable)


def _values(cookies: Iterable[Mapping[str, Any]]) -> dict[CookieKey, str]:
    return {_key(cookie): cookie["value"] for cookie in cookies}


def _key(cookie: Mapping[str, Any]) -> CookieKey:
    return cookie["name"], cookie["domain"], cookie["path"]


def _expires_soon(state: StorageState) -> bool:
    limit = time.time() + RENEWED_BEFORE_S
    return any(0 < cookie.get("expires", -1) < limit for cookie in state.get("cookies", []))
