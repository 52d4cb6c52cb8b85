"""What a session of the browser waits for."""

from __future__ import annotations

import asyncio

from web_pages import needs_chromium, running_site

from agentrl_envs.browser.activity import Activity
from agentrl_envs.browser.session import BrowserSession
from agentrl_envs.browser.thread import BrowserThread


async def test_a_tab_that_a_page_asked_for_is_waited_for():
    activity = Activity()
    activity.opens()
    rest = asyncio.create_task(activity.rest())
    await asyncio.sleep(0)
    assert not rest.done()
    activity.opened()
    assert await rest


async def test_a_tab_that_nobody_asked_for_is_no_reason_to_wait():
    activity = Activity()
    activity.opened()
    activity.opens()
    activity.opened()
    assert not await activity.rest()


@needs_chromium
def test_the_view_after_a_page_has_opened_a_tab_is_of_that_tab():
    async def open_a_tab(session: BrowserSession, url: str) -> tuple[str, ...]:
        await session.begin([url], None)
        await session.view()
        await session.page.evaluate("setTimeout(() => open('/mug'), 100)")
        await session.settle()
        return (await session.view()).titles

    thread = BrowserThread(frozenset({"127.0.0.1"}))
    with running_site() as site:
        session = BrowserSession(thread, 800, 600)
        assert thread.run(open_a_tab(session, site.url), 60) == ("Home", "Mug")
    thread.close()
