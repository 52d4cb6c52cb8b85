"""The HTTP endpoints /metrics, /healthz and /readyz."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import generate_latest

from agentrl_envs.http.listening import listening_socket
from agentrl_operator.telemetry.metrics import Metrics

LONGEST_SILENCE_S = 90.0
"""The operator is not ready if the API server has not answered for this long."""


class Health:
    """The state behind the probes."""

    def __init__(self, last_event: Callable[[], float], metrics: Metrics) -> None:
        """`last_event` returns the time of the last event of any watch, by `time.monotonic`."""
        self.watching = False
        """Whether the watches are established."""
        self._leader = ""
        self._last_event = last_event
        self._last_response: float | None = None
        self._metrics = metrics
        metrics.last_response_age.set_function(self._response_age_s)

    def record_response(self) -> None:
        """The API server has just answered."""
        self._last_response = time.monotonic()

    def set_standby(self, leader: str) -> None:
        """The API server has just answered that another process is the leader."""
        self._leader = leader
        self.record_response()

    def set_leading(self) -> None:
        """This process is the leader."""
        self._leader = ""
        self._metrics.leader.set(1)

    def application(self) -> web.Application:
        """The web application with the three endpoints."""
        application = web.Application()
        application.add_routes(
            [
                web.get("/metrics", self._serve_metrics),
                web.get("/healthz", self._serve_healthz),
                web.get("/readyz", self._serve_readyz),
            ]
        )
        return application

    def _response_age_s(self) -> float:
        if self._last_response is None:
            return float("inf")
        return time.monotonic() - self._last_response

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        body = generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _serve_healthz(self, _: web.Request) -> web.Response:
        """Any response shows that nothing blocks the event loop."""
        return web.json_response({"ok": True})

    async def _serve_readyz(self, _: web.Request) -> web.Response:
        """Ready to reconcile as the leader, or to take over from another one."""
        age_s = self._response_age_s()
        ready = (self.watching or bool(self._leader)) and age_s < LONGEST_SILENCE_S
        content = {
            "ready": ready,
            **({"leader": self._leader} if self._leader else {}),
            "lastEventAgeSeconds": round(time.monotonic() - self._last_event(), 1),
            "lastResponseAgeSeconds": None if self._last_response is None else round(age_s, 1),
        }
        return web.json_response(content, status=200 if ready else 503)


@asynccontextmanager
async def probe_server(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """Serve the endpoints within this context, on what `listening_socket` makes of host and port;
    yields the port."""
    # No keep-alive: Kopf would wait for the connections to close when the operator stops.
    runner = web.AppRunner(health.application(), access_log=None, keepalive_timeout=0)
    await runner.setup()
    try:
        site = web.SockSite(runner, listening_socket(host, port))
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
