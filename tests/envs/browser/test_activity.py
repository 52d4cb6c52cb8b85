"""What a session of the browser waits for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
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


class Fetch(SimpleNamespace):
    """A request of a page for data."""

    resource_type = "fetch"

    def is_navigation_request(self) -> bool:
        return False

    __hash__ = object.__hash__


async def test_a_page_that_always_has_a_request_under_way_is_waited_for_only_so_long():
    sent = 0

    async def poll(activity: Activity) -> None:
        nonlocal sent
        while True:
            request = Fetch()
            activity._sent(request)
            sent += 1
            await asyncio.sleep(0.02)
            activity._sent(following := Fetch())
            activity._answered(request)
            await asyncio.sleep(0.02)
            activity._answered(following)

    activity = Activity(polling_s=0.2)
    polls = asyncio.create_task(poll(activity))
    await asyncio.sleep(0)
    began = time.monotonic()
    assert await activity.rest(began)
    assert not await activity.rest(began)  # the next round of the same wait
    assert sent > 1
    polls.cancel()


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


IN_NAMESPACE = ("unshare", "--net", "sh", "-c")


def can_change_network() -> bool:
    """Whether this process may make a network namespace with interfaces."""
    tries = "ip link add one type veth peer name other"
    with suppress(OSError):
        return (
            subprocess.run([*IN_NAMESPACE, tries], check=False, capture_output=True).returncode == 0
        )
    return False


@needs_chromium
@pytest.mark.skipif(not can_change_network(), reason="needs root, unshare and ip")
def test_a_document_is_asked_for_again_if_the_network_of_the_machine_changed():
    program = Path(__file__).with_name("network_change.py")
    command = f"ip link set lo up && exec {sys.executable} {program}"
    ended = subprocess.run([*IN_NAMESPACE, command], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "Here\n"), ended.stderr
