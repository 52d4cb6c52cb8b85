"""What the pages of a browser context do outside their documents: requests under way, navigations
that failed, renderers that crashed. Recorded as it happens, on the browser's event loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Error, Frame, Page, Request, Response

from agentrl_envs.browser.quiet import BACKGROUND_S, POLLING_S
from agentrl_envs.errors import SessionError

NO_DOCUMENT = (204, 205)
"""Statuses of answers that leave the page as it is."""

NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
"""Chromium ends requests that are connecting when an interface is added to the machine or removed:
containers that start or stop there do that."""

CACHE_MISS = "ERR_CACHE_MISS"
"""Chromium's answer where a page of the history is the answer to a POST."""

SERVER_ERROR = 500
"""HTTP status from which on a site counts as down."""


class Activity:
    """The activity of one context. Requests that begin `polling_s` seconds after the document and
    after the wait are those of a page that polls."""

    def __init__(self, polling_s: float = POLLING_S) -> None:
        self._polling_s = polling_s
        self.lost: str | None = None
        """Why the session can be used no more; None: it can."""
        self.blocked: str | None = None
        """Address of a navigation that was blocked because it leaves the sites."""
        self.unrepeatable = False
        """Whether a page of the history was asked for that is the answer to a form: the browser
        neither keeps such pages nor sends the form again."""
        self.interrupted: dict[Page, str] = {}
        """Address of a document that a tab did not get, because the machine's network changed."""
        self.origins: set[str] = set()
        """Origins that were shown in this episode."""
        self._document_at = time.monotonic()
        """When a tab last got a document."""
        self._requests: dict[Request, float] = {}
        self._navigating: dict[Page, float] = {}
        """Tabs whose next document was asked for and is not there yet, with the time."""
        self._opening: deque[float] = deque()
        """When pages asked for tabs that are not there yet."""
        self._change: asyncio.Future[None] | None = None

    def watch_context(self, context: BrowserContext) -> None:
        """Record the requests of a context."""
        context.on("request", self._sent)
        context.on("requestfinished", self._answered)
        context.on("requestfailed", self._failed)
        context.on("response", self._status)

    def watch_page(self, page: Page) -> None:
        """Record the documents of a tab."""
        page.on("crash", lambda _: self.lose(f"{page.url}: the page crashed"))
        page.on("framenavigated", lambda frame: self._navigated(page, frame))

    def lose(self, reason: str) -> None:
        """The session can be used no more."""
        self.lost = self.lost or reason
        self._wake()

    def check(self) -> None:
        """Raises `SessionError` if the session is lost."""
        if self.lost is not None:
            raise SessionError(self.lost)

    def navigates(self, page: Page) -> None:
        """A navigation was started that may send no request: it is waited for."""
        self._navigating[page] = time.monotonic()

    def opens(self) -> None:
        """A page asked for a tab: it is waited for."""
        self._opening.append(time.monotonic())

    def opened(self) -> None:
        """A tab was opened."""
        if self._opening:
            self._opening.popleft()
            self._wake()

    async def rest(self, since: float | None = None) -> bool:
        """Wait until nothing is under way that began in the last `BACKGROUND_S`. Of a page that
        always has a request under way, only those are waited for that began in the `polling_s`
        after `since`, the time from which the page is waited for (None: now), or after its
        document. Returns whether there was something. Raises `SessionError` if the session is
        lost."""
        waited, since = False, time.monotonic() if since is None else since
        while recent := self._recent(since):
            waited = True
            self._change = asyncio.get_running_loop().create_future()
            remaining = max(recent) + BACKGROUND_S - time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._change, max(remaining, 0.01))
            self.check()
        return waited

    def _recent(self, since: float) -> list[float]:
        """When what is waited for began."""
        polling = max(since, self._document_at) + self._polling_s
        requests = (at for at in self._requests.values() if at < polling)
        begun = (*requests, *self._navigating.values(), *self._opening)
        return [at for at in begun if at > time.monotonic() - BACKGROUND_S]

    def _wake(self) -> None:
        if self._change is not None and not self._change.done():
            self._change.set_result(None)

    def _navigated(self, page: Page, frame: Frame) -> None:
        """A document has taken the place of another."""
        self.origins.add(origin_of(frame.url))
        if frame.parent_frame is None:
            self._document_at = time.monotonic()
            self._navigating.pop(page, None)
            self._wake()

    def _sent(self, request: Request) -> None:
        if request.resource_type not in ("websocket", "eventsource", "media"):
            self._requests[request] = time.monotonic()
        if (page := _navigated_page(request)) is not None:
            self._navigating[page] = time.monotonic()
            self.interrupted.pop(page, None)

    def _answered(self, request: Request) -> None:
        self._requests.pop(request, None)
        self._wake()

    def _status(self, response: Response) -> None:
        if response.status in NO_DOCUMENT and (page := _navigated_page(response.request)):
            self._navigating.pop(page, None)
        if response.status >= SERVER_ERROR and _is_for_a_tab(response.request):
            self.lose(f"{response.url}: the site answered {response.status}; look at its log")

    def _failed(self, request: Request) -> None:
        self._answered(request)
        if not _is_for_a_tab(request):
            return
        page, reason = _navigated_page(request), request.failure or ""
        if "PROXY" in reason or "TUNNEL" in reason or "NAME_NOT_RESOLVED" in reason:
            self.blocked = request.url  # the browser's error page, which comes now, is waited for
        elif CACHE_MISS in reason:
            self.unrepeatable = True  # as above
        elif "ERR_ABORTED" in reason:
            if page is not None:
                self._navigating.pop(page, None)
        elif page is not None and NETWORK_CHANGED in reason and request.method == "GET":
            self._navigating.pop(page, None)
            self.interrupted[page] = request.url
        else:
            self.lose(f"{request.url}: no answer ({reason}); start the site or correct its URL")


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _is_for_a_tab(request: Request) -> bool:
    """Whether a request is to give a tab its next document, and not a frame inside one: what such
    a frame lacks, the page around it does without."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame.parent_frame is None
    except Error:  # the tab is being opened, and has no frame yet
        return True


def _navigated_page(request: Request) -> Page | None:
    """The tab that a request is to give its next document; None: it gives none, or the tab is being
    opened."""
    if not _is_for_a_tab(request):
        return None
    try:
        return request.frame.page
    except Error:
        return None
