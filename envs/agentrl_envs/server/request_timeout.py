"""A time limit for the head of a request.

uvicorn limits how long an idle connection is kept after a response, but not how long a client may
take to send a request: connections that send nothing, or one byte now and then, stay open for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


def http_protocol(head_timeout_s: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol class, closing a connection on which no whole request head arrives
    within `head_timeout_s` seconds. The limit for bodies is `ServerOptions.body_timeout_s`. A
    connection that has become a WebSocket has no limit."""
    return type(
        "HTTPProtocol", (_HeadTimeout, AutoHTTPProtocol), {"head_timeout_s": head_timeout_s}
    )


class _HeadTimeout(asyncio.Protocol):
    """Mixin for uvicorn's protocol classes, which provide the attributes declared here."""

    head_timeout_s: float
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    """The request being processed; None: none yet."""
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is not self:
            # The head asked for a WebSocket: its protocol gets all further calls, so that this is
            # the last one here.
            self._stop_timer()
        elif self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_timeout_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
