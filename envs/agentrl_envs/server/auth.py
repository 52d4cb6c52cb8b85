"""The bearer token: one check before every route, in constant time."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrl_envs.server.error_responses import answer

OPEN_TO_ALL = ("/healthz", "/readyz", "/metrics")
"""Probes and scrapers carry no token, and learn nothing that is secret."""


class BearerToken:
    """Answers 401 to a request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_TO_ALL:
            given = Headers(scope=scope).get("authorization", "").encode()
            if not secrets.compare_digest(given, self._expected):
                refusal = answer(401, "unauthorized", "send the server's token as a bearer token")
                refusal.headers["www-authenticate"] = "Bearer"
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
