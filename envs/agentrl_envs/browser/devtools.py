"""What Chromium's DevTools protocol tells of a page and does to it, beyond Playwright's own calls:
its accessibility tree and layout, its history, its nodes and the storage of its origins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from playwright.async_api import CDPSession, Page

from agentrl_envs.browser.accessibility import Element, elements

EMPTY = "about:blank"
"""Address of a new tab."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A page at one moment."""

    title: str
    elements: tuple[Element, ...]
    """What the viewport shows."""
    above: bool
    """Whether the page goes on above the viewport."""
    below: bool
    has_back: bool
    """Whether there is a page to go back to."""


class DevTools:
    """The protocol's sessions, one a page. All methods raise Playwright's `Error` if the page is
    gone or navigates meanwhile."""

    def __init__(self, width: int, height: int, opens: Callable[[], None]) -> None:
        """The size of the viewport, in CSS pixels. `opens` is called when a page asks for a tab,
        before what the page is asked next is answered: Playwright's event of a new tab comes when
        the tab is there."""
        self._width, self._height = width, height
        self._opens = opens
        self._sessions: WeakKeyDictionary[Page, CDPSession] = WeakKeyDictionary()

    async def snapshot(self, page: Page) -> Snapshot:
        """What the page shows."""
        session = await self._session(page)
        tree, layout, back = await asyncio.gather(
            session.send("Accessibility.getFullAXTree"),
            session.send("DOMSnapshot.captureSnapshot", {"computedStyles": []}),
            self.history_entry(page, -1),
        )
        document = layout["documents"][0]
        top, height = document.get("scrollOffsetY", 0), document.get("contentHeight", 0)
        return Snapshot(
            title=layout["strings"][document["title"]],
            elements=elements(tree["nodes"], layout, self._width, self._height),
            above=top > 0,
            below=top + self._height < height - 1,
            has_back=back is not None,
        )

    async def call_on(self, page: Page, element: Element, function: str) -> Any:
        """The result of a JavaScript function of ours whose `this` is the element's node."""
        session = await self._session(page)
        found = await session.send("DOM.resolveNode", {"backendNodeId": element.node})
        answer = await session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": found["object"]["objectId"],
                "functionDeclaration": function,
                "returnByValue": True,
                "userGesture": True,
            },
        )
        return answer["result"].get("value")

    async def go(self, page: Page, entry: int) -> None:
        """Navigate to an entry of the history."""
        session = await self._session(page)
        await session.send("Page.navigateToHistoryEntry", {"entryId": entry})

    async def history_entry(self, page: Page, step: int) -> int | None:
        """Chromium's id of the entry `step` entries on; None: there is none but the empty first
        page."""
        history = await (await self._session(page)).send("Page.getNavigationHistory")
        index, entries = history["currentIndex"] + step, history["entries"]
        if 0 <= index < len(entries) and entries[index]["url"] != EMPTY:
            return int(entries[index]["id"])
        return None

    async def clear_storage(self, page: Page, origins: Iterable[str]) -> None:
        """Delete what pages of these origins have stored in the context of `page`."""
        session = await self._session(page)
        for origin in origins:
            await session.send(
                "Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"}
            )

    async def _session(self, page: Page) -> CDPSession:
        if page not in self._sessions:
            session = self._sessions[page] = await page.context.new_cdp_session(page)
            session.on("Page.windowOpen", lambda _: self._opens())
            await session.send("Page.enable")
        return self._sessions[page]
