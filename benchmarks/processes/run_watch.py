"""State of the benchmark's runs, kept current by a watch."""

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
from processes.operator_process import NAMESPACE

RUNS = f"apis/agentrl.dev/v1alpha1/namespaces/{NAMESPACE}/agentrlruns"
STARTED = ("Submitting", "Running")


@dataclass
class Seen:
    """State of all runs from the events of a watch."""

    started: set[str] = field(default_factory=set)
    """Names of the runs whose status reports a KFP run."""
    answered: dict[str, int] = field(default_factory=dict)
    """observedGeneration of the status, by name of the run."""
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, run: dict[str, Any]) -> None:
        """Record the current state of a run."""
        name, status = run["metadata"]["name"], run.get("status") or {}
        self.answered[name] = status.get("observedGeneration", 0)
        for condition in status.get("conditions", ()):
            if condition["type"] == "Progressing" and condition["reason"] in STARTED:
                self.started.add(name)
        self.news.set()

    def has_answered(self, name: str, generation: int) -> bool:
        """Whether the status of a run is that of this generation or a later one."""
        return self.answered.get(name, 0) >= generation

    async def until(self, wanted: Callable[[], bool], seconds: float) -> None:
        """Wait until `wanted` returns true.

        Raises:
            click.ClickException: It does not within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                while not wanted():
                    self.news.clear()
                    await self.news.wait()
        except TimeoutError:
            raise click.ClickException(
                f"timed out after {seconds} s: {len(self.started)} runs have started"
            ) from None


@asynccontextmanager
async def watching(api: aiohttp.ClientSession, server: ApiServer) -> AsyncIterator[Seen]:
    """Watch the runs in a background task."""
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
