"""Bearer token authentication for every route, compared in constant time."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrl_envs.server.error_responses import error_response

PUBLIC_PATHS = ("/healthz", "/readyz", "/metrics")
"""Paths for probes and scrapers, which carry no token. They reveal nothing secret."""


class BearerToken:
    """ASGI middleware that answers 401 to a request without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in PUBLIC_PATHS:
            header = Headers(scope=scope).get("authorization", "")
            scheme, _, credentials = header.partition(" ")
            matches = secrets.compare_digest(credentials.strip().encode(), self._token)
            # The scheme is case-insensitive: RFC 9110, section 11.1.
            if not (scheme.lower() == "bearer" and matches):
                message = "send the server's token as a bearer token"
                response = error_response(401, "unauthorized", message)
                response.headers["www-authenticate"] = "Bearer"
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)
