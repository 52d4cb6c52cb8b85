"""One Chromium and the thread of its event loop.

Playwright's objects belong to one event loop, and the environment contract is synchronous. So the
loop has a thread of its own, and sessions call into it from theirs: while one waits for its page,
others act. Environments of a process that reach the same hosts share the browser, which starts with
the first session and is started again after it died.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from playwright.async_api import Browser, BrowserContext, Error, Playwright, async_playwright

from agentrl_envs.browser.chromium import launch
from agentrl_envs.errors import CapacityError, OptionError, SessionError

T = TypeVar("T")

START_TIMEOUT_S = 90.0
CLOSE_TIMEOUT_S = 10.0
CLOSE_CONTEXT_S = 5.0

CLOSED = "TargetClosedError"
"""Playwright's error, which it does not export, of a browser or a driver that is gone."""


class BrowserThread:
    """Runs coroutines that use the browser, from any thread."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self.hosts = hosts
        self._loop = asyncio.new_event_loop()
        self._starting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._closed = False
        self.bounded = 0
        """Open contexts of sessions whose number has a bound: each is a process of Chromium."""
        self.launches = 0
        """Number of times that Chromium was started."""
        self._thread = threading.Thread(target=self._serve, name="browser", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The result of `work`. Raises `SessionError` if it takes longer than `timeout_s` or the
        browser fails."""
        if self._closed:
            work.close()
            raise SessionError("the browser was closed")
        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self._loop)
        try:
            return future.result()
        except TimeoutError:
            raise SessionError(f"the browser gave no answer within {timeout_s:g} s") from None
        except Error as error:
            raise SessionError(f"browser: {first_line(error)}") from error

    def start(self) -> None:
        """Start the browser if it is not running. Raises `SessionError` if it does not start."""
        self.run(self.browser(), START_TIMEOUT_S)

    async def browser(self) -> Browser:
        """The browser, started if it is not running."""
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                self._browser = await self._launch()
                self.launches += 1
            return self._browser

    async def _launch(self) -> Browser:
        if self._playwright is not None:
            try:
                return await launch(self._playwright, self.hosts)
            except SessionError as error:
                if type(error.__cause__).__name__ != CLOSED:
                    raise
            await self._stop_driver()
        self._playwright = await async_playwright().start()
        return await launch(self._playwright, self.hosts)

    async def _stop_driver(self) -> None:
        playwright, self._playwright, self._browser = self._playwright, None, None
        with suppress(Error, OSError, TimeoutError):  # nobody may be there to be stopped
            if playwright is not None:
                await asyncio.wait_for(playwright.stop(), CLOSE_CONTEXT_S)

    async def new_context(self, width: int, height: int, most: int | None) -> BrowserContext:
        """A context for one session, with a viewport of this size in CSS pixels. Raises
        `CapacityError` if `most` that have a bound are open."""
        if most is not None and self.bounded >= most:
            raise CapacityError(
                f"browser: all {most} sessions are in use; raise the option sessions, with 100 MB "
                "of memory for each, or lower rollout.concurrency"
            )
        self.bounded += most is not None
        with ExitStack() as on_error:
            on_error.callback(self._forget_context, most)
            browser = await self.browser()
            try:
                context = await _context(browser, width, height)
            except Error as error:
                if type(error).__name__ != CLOSED:
                    raise
                await self._forget_browser(browser)
                context = await _context(await self.browser(), width, height)
            on_error.pop_all()
        return context

    async def _forget_browser(self, browser: Browser) -> None:
        """Stop `browser`, which is gone or whose driver is, so that both are started again. A
        browser whose driver has died still counts as connected."""
        async with self._starting:
            if self._browser is browser:
                await self._stop_driver()

    async def close_context(self, context: BrowserContext, most: int | None) -> None:
        """Close a context of `new_context`, with its tabs; `most` as there."""
        self._forget_context(most)
        with suppress(Error, TimeoutError):  # a page that hangs may not answer
            await asyncio.wait_for(context.close(), CLOSE_CONTEXT_S)

    def _forget_context(self, most: int | None) -> None:
        self.bounded -= most is not None

    def close(self) -> None:
        """Stop the browser and the thread. May be called twice."""
        if self._closed:
            return
        self._closed = True
        future = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        with suppress(TimeoutError):
            future.result(CLOSE_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _serve(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _stop(self) -> None:
        with suppress(Error):
            if self._browser is not None:
                await self._browser.close()
            if self._playwright is not None:
                await self._playwright.stop()


async def _context(browser: Browser, width: int, height: int) -> BrowserContext:
    return await browser.new_context(
        viewport={"width": width, "height": height},
        service_workers="block",
        accept_downloads=False,
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
    )


def first_line(error: BaseException) -> str:
    """The first line of an error's message: Playwright appends a call log."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


_threads: dict[frozenset[str], BrowserThread] = {}
_lock = threading.Lock()


def shared_browser(hosts: frozenset[str]) -> BrowserThread:
    """The browser of this process whose pages reach `hosts` (`host:port`)."""
    with _lock:
        if hosts not in _threads:
            _threads[hosts] = BrowserThread(hosts)
        return _threads[hosts]


def start_browser(hosts: frozenset[str]) -> None:
    """Start the browser of this process whose pages reach `hosts`. Raises `OptionError` if it does
    not start."""
    try:
        shared_browser(hosts).start()
    except SessionError as error:
        raise OptionError(str(error)) from error


def close_browsers() -> None:
    """Stop every browser of this process."""
    with _lock:
        threads = list(_threads.values())
        _threads.clear()
    for thread in threads:
        thread.close()


atexit.register(close_browsers)
os.register_at_fork(after_in_child=_threads.clear)  # threads do not survive a fork
