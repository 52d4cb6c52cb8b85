"""What a watch on the benchmark's runs shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import click
from apiserver import ApiServer
from operator_process import NAMESPACE

RUNS = f"apis/agentrl.dev/v1alpha1/namespaces/{NAMESPACE}/agentrlruns"
STARTED = ("Submitting", "Running")


@dataclass
class Seen:
    """What a watch on all runs has shown."""

    started: set[str] = field(default_factory=set)
    """Whose KFP run is there and whose status says so."""
    answered: dict[str, int] = field(default_factory=dict)
    """Generation that the status answers, by name."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, run: dict[str, Any]) -> None:
        """A run as it is now."""
        name, status = run["metadata"]["name"], run.get("status") or {}
        self.answered[name] = status.get("observedGeneration", 0)
        for condition in status.get("conditions", ()):
            if condition["type"] == "Progressing" and condition["reason"] in STARTED:
                self.started.add(name)
        self.news.set()

    async def until(self, wanted: Callable[[], bool], seconds: float) -> None:
        """Wait for it."""
        try:
            async with asyncio.timeout(seconds):
                while not wanted():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            raise click.ClickException(f"after {seconds} s: {len(self.started)} started") from None


@asynccontextmanager
async def watching(api: aiohttp.ClientSession, server: ApiServer) -> AsyncIterator[Seen]:
    """A watch runs meanwhile."""
    seen = Seen()

    async def watch() -> None:
        url = f"{server.url}/{RUNS}?watch=1"
        timeout = aiohttp.ClientTimeout(total=None)
        async with api.get(url, timeout=timeout) as response:
            pending = b""
            async for chunk in response.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    seen.take(json.loads(line)["object"])

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
