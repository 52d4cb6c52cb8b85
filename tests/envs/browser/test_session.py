"""The tabs of a session: how an episode begins, and navigations that are undone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.async_api import BrowserContext, StorageState
from web_pages import needs_chromium, running_site

from agentrl_envs.browser.session import UNREPEATABLE, BrowserSession
from agentrl_envs.browser.thread import BrowserThread
from agentrl_envs.errors import SessionError

pytestmark = needs_chromium

T = TypeVar("T")


@pytest.fixture(scope="module")
def thread() -> Iterator[BrowserThread]:
    running = BrowserThread(frozenset({"127.0.0.1"}))
    yield running
    running.close()


@pytest.fixture
def run(thread: BrowserThread):
    """Runs a function of a new session on the browser's event loop."""

    def start(play: Callable[[BrowserSession], Awaitable[T]]) -> T:
        async def played() -> T:
            session = BrowserSession(thread, 800, 600)
            try:
                return await play(session)
            finally:
                await session.end()

        return thread.run(played(), 60)

    return start


async def titles(session: BrowserSession) -> tuple[int, tuple[str, ...]]:
    view = await session.view()
    return view.current, view.titles


async def send_form(session: BrowserSession) -> None:
    await session.page.evaluate("document.forms[0].submit()")
    await session.settle()


def test_an_episode_with_several_start_pages_begins_on_the_first(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/", f"{site.url}/mug"], None)
        return await titles(session), await session.page.evaluate("document.visibilityState")

    assert run(play) == ((0, ("Home", "Mug")), "visible")


def test_a_title_that_ends_in_half_an_emoji_can_be_encoded(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/mug"], None)
        await session.page.evaluate("document.title = 'mug \\ud83d\\ude00'.slice(0, 5)")
        current = (await session.view()).titles
        await session.open_tab()
        return *current, (await session.view()).titles[0]

    assert run(play) == ("mug ?", "mug ?")


def children(process: int) -> dict[int, str]:
    """Command lines of the processes that a process has started, by number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == process:
                found[int(folder.name)] = (folder / "cmdline").read_text()
    return found


@pytest.mark.parametrize("closed", [False, True])
def test_a_driver_that_was_killed_is_started_again_with_its_browser(site, closed):
    async def close_browser() -> None:
        await (await thread.browser()).close()

    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/mug"], None)
        return await titles(session)

    before = children(os.getpid())
    thread = BrowserThread(frozenset({"127.0.0.1"}))
    thread.start()
    after = children(os.getpid())
    (driver,) = (pid for pid in after.keys() - before.keys() if "run-driver" in after[pid])
    if closed:
        thread.run(close_browser(), 60)
    os.kill(driver, signal.SIGKILL)
    assert thread.run(play(BrowserSession(thread, 800, 600)), 60) == (0, ("Mug",))
    assert thread.launches == 2
    thread.close()


async def stored(session: BrowserSession) -> str:
    """What a page that stores something found stored when it opened."""
    return await session.page.inner_text("#seen")


def test_local_storage_of_a_start_page_that_the_agent_has_left_is_deleted(run, site):
    async def play(session: BrowserSession):
        with running_site() as other:
            await session.begin([f"{site.url}/store", f"{other.url}/"], None)
            found = [await stored(session)]
            await session.close_tab()
            await session.begin([f"{site.url}/store"], None)
        return [*found, await stored(session)]

    assert run(play) == ["cookie , local 0, session 0, name , history 2"] * 2


def test_local_storage_of_a_login_on_a_site_that_the_agent_does_not_visit_is_deleted(run, site):
    async def play(session: BrowserSession):
        with running_site() as other:
            kept = {"origin": site.url, "localStorage": [{"name": "user", "value": "ann"}]}
            await session.begin([f"{other.url}/"], StorageState(cookies=[], origins=[kept]))
            await session.begin([f"{site.url}/store"], None)
        return await stored(session)

    assert run(play) == "cookie , local 0, session 0, name , history 2"


def test_a_page_that_sets_cookies_again_and_again_leaves_none_to_the_next_episode(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/again"], None)
        await session.begin([f"{site.url}/mug"], None)
        return await session.page.context.cookies()

    assert run(play) == []


def test_a_frame_without_its_document_leaves_the_page_around_it_as_it_is(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/frames"], None)
        return await session.settle(), await titles(session)

    assert run(play) == ("", (0, ("Frames",)))


def test_a_tab_that_opens_outside_the_sites_is_closed(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/"], None)
        await session.view()
        await session.page.evaluate("void open('http://outside.example/')")
        return await session.settle(), await titles(session)

    message = "http://outside.example/ is outside the sites; the browser went back"
    assert run(play) == (message, (0, ("Home",)))


def test_a_tab_that_opens_with_an_error_of_the_site_loses_the_session(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/"], None)
        await session.view()
        await session.page.evaluate("void open('/broken')")
        await session.settle()

    with pytest.raises(SessionError, match=r"/broken: the site answered 500"):
        run(play)


@pytest.mark.parametrize("forms", [1, 2])
def test_going_back_passes_over_answers_to_forms(run, site, forms):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/mug"], None)
        await session.visit(f"{site.url}/login")
        for _ in range(forms):
            await session.settle()
            await send_form(session)
        await session.visit(f"{site.url}/tall")
        await session.settle()
        await session.go(-1)
        message, seen = await session.settle(), await titles(session)
        await session.go(-1)
        return message, seen, await session.settle(), await titles(session)

    assert run(play) == (UNREPEATABLE, (0, ("Login",)), "", (0, ("Mug",)))


def test_going_forward_to_the_answer_to_a_form_stays(run, site):
    async def play(session: BrowserSession):
        await session.begin([f"{site.url}/mug"], None)
        await session.visit(f"{site.url}/login")
        await session.settle()
        await send_form(session)
        await session.go(-1)
        await session.settle()
        await session.go(1)
        return await session.settle(), await titles(session)

    assert run(play) == (UNREPEATABLE, (0, ("Login",)))


class HangingContexts(BrowserThread):
    """A browser whose contexts never take an init script."""

    def __init__(self) -> None:
        super().__init__(frozenset({"127.0.0.1"}))
        self.made = asyncio.Event()
        """Set when a context was made."""

    async def new_context(self, width: int, height: int, most: int | None) -> BrowserContext:
        context = await super().new_context(width, height, most)

        async def hang(script: str) -> None:
            self.made.set()
            await asyncio.Event().wait()

        context.add_init_script = hang  # type: ignore[assignment, method-assign]
        return context


def test_a_session_whose_beginning_took_too_long_gives_its_place_back():
    """Regression: its context stayed open, and counted, for ever."""
    thread = HangingContexts()

    async def give_up() -> int:
        session = BrowserSession(thread, 800, 600, most=1)
        beginning = asyncio.create_task(session.begin([], None))
        browser = await thread.browser()
        await thread.made.wait()
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        await session.end()
        return len(browser.contexts)

    try:
        assert thread.run(give_up(), 60) == 0
        assert thread.bounded == 0
    finally:
        thread.close()
