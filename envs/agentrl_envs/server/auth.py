"""Token authentication for every route, compared in constant time.

The token is sent as a bearer token. Where clients of other protocols are served, which know no
tokens, it may also be the password in their URL: they send `http://any:TOKEN@host` as Basic
authentication (RFC 7617).
"""

from __future__ import annotations

import base64
import binascii
import secrets

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from agentrl_envs.server.error_responses import error_response

PUBLIC_PATHS = ("/healthz", "/readyz", "/metrics")
"""Paths for probes and scrapers, which carry no token. They reveal nothing secret."""

POLICY_VIOLATION = 1008
"""Close code of RFC 6455."""


class BearerToken:
    """ASGI middleware that answers 401 to a request without the token."""

    def __init__(self, app: ASGIApp, token: str, *, as_password: bool = False) -> None:
        """`as_password`: also accept the token as the password of Basic authentication."""
        self._app = app
        self._token = token.encode()
        self._as_password = as_password

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        guarded = scope["type"] in ("http", "websocket") and scope["path"] not in PUBLIC_PATHS
        if guarded and not self._authorized(Headers(scope=scope).get("authorization", "")):
            if scope["type"] == "websocket":  # closing before accepting is a response of 403
                await send({"type": "websocket.close", "code": POLICY_VIOLATION})
                return
            message = "send the server's token as a bearer token"
            response = error_response(401, "unauthorized", message)
            response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _authorized(self, header: str) -> bool:
        scheme, _, credentials = header.partition(" ")
        # The scheme is case-insensitive: RFC 9110, section 11.1.
        given = credentials.strip().encode()
        if scheme.lower() == "basic" and self._as_password:
            given = _password(given)
        elif scheme.lower() != "bearer":
            given = b""
        return secrets.compare_digest(given, self._token)


def _password(credentials: bytes) -> bytes:
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
