"""Keeps sessions open between two requests.

A reply may take longer than a server keeps a session without a call, and so may new weights for the
engine. A long lease would be no help: the sessions of a client that was killed would hold their
places as long. So one task for each server renews the sessions of this client.
"""

from __future__ import annotations

import asyncio

from agentrl_envs.client.http import ServerClient
from agentrl_envs.errors import SessionError, WorldError
from agentrl_envs.protocol import MAX_RENEWALS, RenewalRequest, RenewalResponse

PATH = "/v1/renewals"
SHARE = 1 / 3
"""Share of a lease's time after which it is renewed: two renewals may fail."""


class Renewals:
    """The sessions of one server whose episodes go on. To be used from one event loop."""

    def __init__(self, server: ServerClient) -> None:
        self._server = server
        self._sessions: set[str] = set()
        self._ttl_s = 0.0
        self._task: asyncio.Task[None] | None = None
        """None: there was no session yet."""
        self._supported = True

    def add(self, session: str, ttl_s: float) -> None:
        """Renew a session, which expires after `ttl_s` seconds, until it is removed."""
        self._sessions.add(session)
        self._ttl_s = ttl_s
        if self._supported and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._renew())

    def remove(self, session: str) -> None:
        """Renew a session no longer. Nothing for one that is not renewed."""
        self._sessions.discard(session)

    async def close(self) -> None:
        """Renew no session any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _renew(self) -> None:
        """Renew the sessions until there are none, or the server turns out to be unable to."""
        while True:
            await asyncio.sleep(SHARE * self._ttl_s)
            if not self._sessions:
                return
            sessions = tuple(self._sessions)
            try:
                for first in range(0, len(sessions), MAX_RENEWALS):
                    request = RenewalRequest(sessions=sessions[first : first + MAX_RENEWALS])
                    await self._server.post(PATH, request, RenewalResponse)
            except SessionError:
                continue  # the server is away: the next renewal may reach it
            except WorldError:
                self._supported = False
                return
