"""/metrics, /healthz and /readyz."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import generate_latest

from agentrl_operator.telemetry.metrics import Metrics

SILENCE_S = 90.0
"""The operator is not ready where Kubernetes has not answered it for so long."""


class Health:
    """What probes ask."""

    def __init__(self, last_event: Callable[[], float], metrics: Metrics) -> None:
        self.started = False
        """The watches run."""
        self._waits_for = ""
        self._last_event = last_event
        self._answered: float | None = None
        self._metrics = metrics
        metrics.answer_age.set_function(self._answer_age)

    def answered(self) -> None:
        """Kubernetes has answered just now."""
        self._answered = time.monotonic()

    def waits(self, holder: str) -> None:
        """Kubernetes has answered just now, and another operator holds the Lease."""
        self._waits_for = f"the lease, which {holder} holds"
        self.answered()

    def acts(self) -> None:
        """This operator is the one that acts."""
        self._waits_for = ""
        self._metrics.acts.set(1)

    def application(self) -> web.Application:
        """The three pages."""
        served = web.Application()
        served.add_routes(
            [
                web.get("/metrics", self._shown),
                web.get("/healthz", self._alive),
                web.get("/readyz", self._ready),
            ]
        )
        return served

    def _answer_age(self) -> float:
        return float("inf") if self._answered is None else time.monotonic() - self._answered

    async def _shown(self, _: web.Request) -> web.Response:
        page = generate_latest(self._metrics.registry)
        return web.Response(body=page, headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _alive(self, _: web.Request) -> web.Response:
        """That the loop answers is the answer: nothing in it may block."""
        return web.json_response({"ok": True})

    async def _ready(self, _: web.Request) -> web.Response:
        """To act, or to take over: a second operator that waits is as it should be."""
        age_s = self._answer_age()
        ready = (self.started or bool(self._waits_for)) and age_s < SILENCE_S
        waits_for = {"waitsFor": self._waits_for} if self._waits_for else {}
        page = {
            "ready": ready,
            **waits_for,
            "lastEventAgeSeconds": round(time.monotonic() - self._last_event(), 1),
            "lastAnswerAgeSeconds": round(age_s, 1) if self._answered is not None else None,
        }
        return web.json_response(page, status=200 if ready else 503)


@asynccontextmanager
async def probed(health: Health, host: str, port: int) -> AsyncIterator[int]:
    """The pages are served meanwhile; yields the port, which the system chooses for 0."""
    # No connection is kept: Kopf would wait for its end when the operator stops.
    runner = web.AppRunner(health.application(), access_log=None, keepalive_timeout=0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
