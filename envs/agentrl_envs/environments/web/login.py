"""Logging in to sites: once each, by their login form; the storage state is reused by sessions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping

from playwright.async_api import Error, Page, StorageState

from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread, first_line
from agentrl_envs.environments.web.options import Account
from agentrl_envs.environments.web.sites import Addresses
from agentrl_envs.errors import SessionError, TaskError

RENEWED_BEFORE_S = 900.0
"""A state is made again when a cookie of it expires within so many seconds."""

FORM_TIMEOUT_S = 20.0

VIEWPORT = (1280, 720)


class Logins:
    """Storage states by site, of one browser. Its methods run on the browser's event loop."""

    def __init__(
        self, thread: BrowserThread, addresses: Addresses, accounts: Mapping[str, Account]
    ) -> None:
        self._thread = thread
        self._addresses = addresses
        self._accounts = accounts
        self._states: dict[str, StorageState] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.count = 0
        """Number of logins that were made."""

    async def state(self, sites: Iterable[str]) -> StorageState:
        """The cookies and storage of a browser that is logged in to those of `sites` that have an
        account."""
        cookies, origins = [], []
        for site in sites:
            if site in self._accounts:
                found = await self._site_state(site)
                cookies += found.get("cookies", [])
                origins += found.get("origins", [])
        return StorageState(cookies=cookies, origins=origins)

    async def _site_state(self, site: str) -> StorageState:
        async with self._locks.setdefault(site, asyncio.Lock()):
            if site not in self._states or _expires_soon(self._states[site]):
                self._states[site] = await self._log_in(site)
                self.count += 1
            return self._states[site]

    async def _log_in(self, site: str) -> StorageState:
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
            return await session.page.context.storage_state()
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


def _expires_soon(state: StorageState) -> bool:
    limit = time.time() + RENEWED_BEFORE_S
    return any(0 < cookie.get("expires", -1) < limit for cookie in state.get("cookies", []))
