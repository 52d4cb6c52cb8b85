"""The tabs of one session: a browser context that is cleaned, not restarted, between episodes.

All methods run on the browser's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from playwright.async_api import BrowserContext, Cookie, Error, Page, StorageState
from playwright.async_api import TimeoutError as PlaywrightTimeout

from agentrl_envs.browser.accessibility import Element
from agentrl_envs.browser.activity import Activity, origin_of
from agentrl_envs.browser.devtools import EMPTY, DevTools
from agentrl_envs.browser.quiet import (
    LOOK_MS,
    LOOKS,
    MOVING_MS,
    QUIET_MS,
    UNTIL_QUIET,
    WATCH_TIMERS,
)
from agentrl_envs.browser.thread import BrowserThread, first_line
from agentrl_envs.browser.view import View
from agentrl_envs.errors import SessionError

UNREPEATABLE = (
    "a page of the history is the answer to a form, which is not sent again; the browser went to "
    "the page before it"
)

ROUNDS = 8
"""Times that a page is waited for again because it navigated or sent a request meanwhile."""

SET_STORAGE = """
values => { for (const [name, value] of Object.entries(values)) localStorage.setItem(name, value) }
"""


class BrowserSession:
    """Tabs, their cookies and storage."""

    def __init__(
        self, thread: BrowserThread, width: int, height: int, *, most: int | None = None
    ) -> None:
        """`most`: sessions that may be open in the browser at once; None: any number, and this one
        is not counted by others."""
        self.width, self.height = width, height
        self._thread = thread
        self._most = most
        self._context: BrowserContext | None = None
        self._devtools = DevTools(width, height, lambda: self._activity.opens())
        self._activity = Activity()
        self.pages: list[Page] = []
        """The tabs, in the order in which they were opened."""
        self.current = 0

    @property
    def page(self) -> Page:
        """The current tab."""
        return self.pages[self.current]

    async def begin(self, urls: Sequence[str], state: StorageState | None) -> None:
        """Start an episode: nothing but `state` is left of the one before, and each of `urls` is
        opened in a tab, the first of which is the current one. Raises `CapacityError` if too many
        sessions are open."""
        browser = await self._thread.browser()
        if self._context is None or self._context.browser is not browser or self._activity.lost:
            await self.end()
            self._activity = Activity()
            await self._open_context()
        self._activity.blocked, self._activity.unrepeatable = None, False
        before, self.pages = list(self.pages), []
        if before:
            await self._clear(before)
        # Once, and before anything is opened: what a login or a start page stores is to be deleted
        # after the episode, also if the agent does not return there.
        self._activity.origins.clear()
        if state is not None:
            await self._restore(state)
        for url in urls:
            await self.open_tab()
            await self.visit(url)
            await self.settle()
        for page in before:
            await page.close()
        if self.current:
            self.current = 0
            await self.page.bring_to_front()

    async def _open_context(self) -> None:
        context = await self._thread.new_context(self.width, self.height, self._most)
        self._context = context  # from now on `end` closes it, also if what follows takes too long
        await context.add_init_script(WATCH_TIMERS)
        context.on("page", self._opened)
        self._activity.watch_context(context)

    async def _restore(self, state: StorageState) -> None:
        """Set the cookies and the local storage of a login."""
        assert self._context is not None
        await self._context.add_cookies(
            [_parameter(dict(each)) for each in state.get("cookies", [])]
        )
        for origin in state.get("origins", []):
            await self.open_tab()
            await self.visit(origin["origin"])
            values = {each["name"]: each["value"] for each in origin["localStorage"]}
            await self.page.evaluate(SET_STORAGE, values)
            await self.pages.pop().close()

    async def _clear(self, before: list[Page]) -> None:
        """Leave the pages of the last episode, of which one tab stays for these calls, and delete
        cookies and storage. Session storage goes with its tab: no tab is used again."""
        assert self._context is not None
        origins = self._activity.origins | {origin_of(page.url) for page in before}
        while len(before) > 1:
            await before.pop().close()
        await before[0].goto(EMPTY)  # a request under way would set its cookies afterwards
        await self._context.clear_cookies()
        await self._devtools.clear_storage(before[0], origins)

    async def cookies(self) -> list[Cookie]:
        """The cookies of all sites."""
        assert self._context is not None
        return await self._context.cookies()

    async def end(self) -> None:
        """Close the tabs and forget the context. May be called twice."""
        context, self._context = self._context, None
        self.pages, self.current = [], 0
        if context is not None:
            await self._thread.close_context(context, self._most)

    async def open_tab(self) -> None:
        """Open an empty tab and make it the current one."""
        assert self._context is not None
        page = await self._context.new_page()
        if page not in self.pages:
            self.pages.append(page)
        self.current = self.pages.index(page)

    async def close_tab(self) -> None:
        """Close the current tab. The last tab is replaced by an empty one."""
        page = self.pages.pop(self.current)
        await page.close()
        if not self.pages:
            await self.open_tab()
        self.current = len(self.pages) - 1
        await self.page.bring_to_front()

    async def visit(self, url: str) -> None:
        """Navigate the current tab. A failure is found by `settle`."""
        with suppress(Error):
            await self.page.goto(url, wait_until="commit")

    async def settle(self) -> str:
        """Wait until the current tab is quiet. Returns why a navigation was undone (it leaves the
        sites, or its page cannot be shown again), or an empty string. Raises `SessionError` if the
        session is lost."""
        began = time.monotonic()
        for _ in range(ROUNDS):
            self._activity.check()
            if (url := self._activity.interrupted.pop(self.page, None)) is not None:
                await self.visit(url)
            try:
                await self.page.wait_for_load_state("load")
                await self.page.evaluate(UNTIL_QUIET, [QUIET_MS, MOVING_MS, LOOKS, LOOK_MS])
            except PlaywrightTimeout as error:
                raise SessionError(f"{self.page.url}: {first_line(error)}") from None
            except Error as error:
                self._activity.check()
                if self.page.is_closed() or "crash" in str(error).lower():
                    raise SessionError(f"{self.page.url}: {first_line(error)}") from None
                await asyncio.sleep(0)  # the document was replaced: look at the next one
                continue
            waited = await self._activity.rest(began)
            if not waited and self.page not in self._activity.interrupted:
                break
        if (url := self._activity.interrupted.get(self.page)) is not None:
            self._activity.lose(f"{url}: no answer, because the machine's network changes")
        self._activity.check()
        blocked, self._activity.blocked = self._activity.blocked, None
        if blocked is not None:
            await self._leave_error_page()
            return f"{blocked[:200]} is outside the sites; the browser went back"
        if self._activity.unrepeatable:
            await self._leave_error_page()
            return UNREPEATABLE
        return ""

    async def view(self) -> View:
        """What the current tab shows."""
        try:
            return await self._view()
        except Error:  # the page navigated on its own after it was quiet
            await self.settle()
            return await self._view()

    async def _view(self) -> View:
        seen = await self._devtools.snapshot(self.page)
        titles = [seen.title if page is self.page else await page.title() for page in self.pages]
        return View(
            url=self.page.url,
            titles=tuple(_encodable(title) for title in titles),
            current=self.current,
            elements=seen.elements,
            above=seen.above,
            below=seen.below,
            has_back=seen.has_back,
        )

    async def go(self, step: int) -> bool:
        """Go `step` entries on in the history of the current tab. False: there is no such page."""
        entry = await self._devtools.history_entry(self.page, step)
        if entry is not None:
            self._activity.navigates(self.page)
            await self._devtools.go(self.page, entry)
        return entry is not None

    async def call_on(self, element: Element, function: str) -> Any:
        """The result of a JavaScript function of ours whose `this` is the element's node."""
        return await self._devtools.call_on(self.page, element, function)

    async def _leave_error_page(self) -> None:
        """Go from the browser's own error page to the last page before it that can be shown."""
        while True:
            self._activity.unrepeatable = False
            if not await self.go(-1):
                await self.close_tab()
                return
            await self._activity.rest()
            await self.page.wait_for_load_state("load")
            if not self._activity.unrepeatable:
                return

    def _opened(self, page: Page) -> None:
        """A tab was opened, by us or by a page; it becomes the current one."""
        if page not in self.pages:
            self.pages.append(page)
            self.current = len(self.pages) - 1
        self._activity.opened()
        self._activity.watch_page(page)
        page.on("close", lambda _: self._forget(page))

    def _forget(self, page: Page) -> None:
        """A page closed itself."""
        if page in self.pages and len(self.pages) > 1:
            self.pages.remove(page)
            self.current = min(self.current, len(self.pages) - 1)

    def lose(self, reason: str) -> None:
        """Nothing of this session can be used any more: the next `begin` starts anew."""
        self._activity.lose(reason)


def _encodable(text: str) -> str:
    """A text with `?` for each surrogate without its other half, as of a title that a page has cut
    in the middle of an emoji: it cannot be sent or tokenized."""
    return text.encode("utf-8", "replace").decode()


def _parameter(cookie: Mapping[str, Any]) -> Any:
    """A cookie as it is read, in the form in which it is set."""
    names = ("name", "value", "domain", "path", "expires", "httpOnly", "secure", "sameSite")
    return {name: cookie[name] for name in names if name in cookie}
