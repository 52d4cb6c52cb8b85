"""Load test of the environment servers: steps per second and memory per session, 64 sessions.

    python benchmarks/envs.py --seconds 5 --out benchmarks/results/envs.json

Each environment is served by a separate process, first with threads and then with worker
processes. The client of the package drives it with a random policy over admissible actions.
Columns:

- `steps/s`: steps per second, measured by the client; median of the repeats. With one client
  process the client is often the bottleneck.
- `spread`: slowest and fastest repeat. Each repeat has a new server process.
- `server ms`: processor time of the server and its workers per step. It determines the capacity of
  a machine.
- `p50`, `p95`: latency of a step in milliseconds, measured by the client.
- `probe p95`: latency of /healthz in milliseconds under this load.
- `KiB/session`: growth of the resident memory of server and workers per open session.
- `local`: steps per second of the environment called directly in one thread, as an upper bound.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import httpx
from processes.served import processor_s, resident_kib, server
from report.machine import machine
from rich.console import Console
from rich.table import Table

from agentrl_envs import registry
from agentrl_envs.client.remote_world import RemoteSession, RemoteWorld
from agentrl_envs.env import Observation
from agentrl_envs.needs import PYTHON_ONLY

MOST_TURNS = 20
OPTIONS = {
    "search": {"text": "terse"},
    "web": {"text": "terse"},
    "wordle": {"text": "terse"},
}
"""Options with which an environment lists its actions, for the random policy."""
ANY = "gymnasium"
"""Plays an environment that its options name, so it has no row of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Measurements of one server."""

    environment: str
    workers: int
    sessions: int
    steps_per_s: float
    repeats: tuple[float, ...] = ()
    """Steps per second of every repeat, in order."""
    server_ms: float
    p50_ms: float
    p95_ms: float
    probe_p95_ms: float
    kib_per_session: float
    local_steps_per_s: float


@click.command()
@click.option(
    "--seconds", default=5.0, show_default=True, help="Duration of the load on each server."
)
@click.option("--sessions", default=64, show_default=True)
@click.option("--repeats", default=3, show_default=True, help="Repeats of each measurement.")
@click.option(
    "--workers",
    default=2,
    show_default=True,
    help="Worker processes of the second server; the first one uses threads.",
)
@click.option(
    "--environment",
    "-e",
    "chosen",
    multiple=True,
    help="May be repeated. Default: the built-in environments that need Python only.",
)
@click.option("--out", "path", default="benchmarks/results/envs.json", show_default=True)
def main(
    seconds: float,
    sessions: int,
    repeats: int,
    workers: int,
    chosen: tuple[str, ...],
    path: str,
) -> None:
    """Load test of the environment servers: print a table and write JSON."""
    results = []
    for name in chosen or default_environments():
        local = local_steps_per_s(name, seconds=min(seconds, 2.0))
        for count in (0, workers):
            runs = []
            for _ in range(repeats):
                with server(name, workers=count, capacity=sessions, options=OPTIONS.get(name)) as (
                    url,
                    pid,
                ):
                    run = measure(name, url, pid, sessions, seconds, workers=count, local=local)
                    runs.append(asyncio.run(run))
            results.append(median_run(runs))
    Console().print(table(results))
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    written = {
        **machine(),
        "results": [asdict(result) for result in results],
    }
    Path(path).write_text(json.dumps(written, indent=2) + "\n")
    click.echo(f"written: {path}")


def default_environments() -> tuple[str, ...]:
    """The built-in environments that run on Python alone."""
    return tuple(n for n in registry.names() if n != ANY and registry.needs(n) == PYTHON_ONLY)


def median_run(runs: list[Result]) -> Result:
    """The run of median throughput, with the throughput of all runs."""
    median = sorted(runs, key=lambda run: run.steps_per_s)[len(runs) // 2]
    return replace(median, repeats=tuple(run.steps_per_s for run in runs))


async def measure(
    name: str, url: str, pid: int, count: int, seconds: float, *, workers: int, local: float
) -> Result:
    """Open the sessions, measure their memory, then put load on the server for `seconds`."""
    async with RemoteWorld.connected(url) as world:
        warm = [world.session() for _ in range(max(1, workers))]
        for session in warm:  # import modules first: they are not memory of sessions
            await session.reset(await world.task("train", 0))
        before = resident_kib(pid)
        sessions = [*warm, *(world.session() for _ in range(count - len(warm)))]
        seen = await asyncio.gather(
            *[
                session.reset(await world.task("train", index))
                for index, session in enumerate(sessions)
            ]
        )
        kib = (resident_kib(pid) - before) / max(1, count - len(warm))
        latencies: list[float] = []
        busy, until = processor_s(pid), time.monotonic() + seconds
        players = [
            play(world, session, first, index, until, latencies)
            for index, (session, first) in enumerate(zip(sessions, seen, strict=True))
        ]
        began = time.monotonic()
        probing = asyncio.create_task(probe(url, until))
        await asyncio.gather(*players)
        probes = await probing
        took = time.monotonic() - began
        busy = processor_s(pid) - busy
        await asyncio.gather(*(session.close() for session in sessions))
    return Result(
        environment=name,
        workers=workers,
        sessions=count,
        steps_per_s=len(latencies) / took,
        server_ms=busy / len(latencies) * 1e3,
        p50_ms=quantile(latencies, 0.5) * 1e3,
        p95_ms=quantile(latencies, 0.95) * 1e3,
        probe_p95_ms=quantile(probes, 0.95) * 1e3,
        kib_per_session=kib,
        local_steps_per_s=local,
    )


async def play(
    world: RemoteWorld,
    session: RemoteSession,
    observation: Observation,
    index: int,
    until: float,
    latencies: list[float],
) -> None:
    """Play episodes with random admissible actions until `until`, and record latencies."""
    draws, turns = random.Random(index), 0
    while time.monotonic() < until:
        action = draws.choice(observation.admissible or ("look",))
        began = time.monotonic()
        step = await session.step(action)
        latencies.append(time.monotonic() - began)
        observation, turns = step.observation, turns + 1
        if step.terminated or step.truncated or turns >= MOST_TURNS:
            index, turns = index + 64, 0
            observation = await session.reset(await world.task("train", index))


async def probe(url: str, until: float) -> list[float]:
    """Latencies of /healthz in seconds, sampled ten times per second until `until`."""
    taken: list[float] = []
    async with httpx.AsyncClient(base_url=url, timeout=30) as http:
        while time.monotonic() < until or not taken:
            began = time.monotonic()
            (await http.get("/healthz")).raise_for_status()
            taken.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
    return taken


def local_steps_per_s(name: str, *, seconds: float) -> float:
    """Steps per second of the environment without a server, in one thread; includes resets."""
    tasks = registry.task_set(name, OPTIONS.get(name))
    environment, draws = tasks.environment(), random.Random(0)
    steps, index, began = 0, 0, time.monotonic()
    while time.monotonic() - began < seconds:
        offered, index = environment.reset(tasks.task("train", index)).admissible, index + 1
        for _ in range(MOST_TURNS):
            step = environment.step(draws.choice(offered or ("look",)))
            offered, steps = step.observation.admissible, steps + 1
            if step.terminated or step.truncated:
                break
    environment.close()
    return steps / (time.monotonic() - began)


def quantile(values: list[float], share: float) -> float:
    """Quantile with linear interpolation; `share`, in (0, 1), is rounded to whole percents."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def table(results: list[Result]) -> Table:
    """Table of the results for the terminal."""
    shown = Table(
        box=None,
        pad_edge=False,
        title=f"environment servers, {results[0].sessions} concurrent sessions",
    )
    for column in ("environment", "runs in"):
        shown.add_column(column)
    for column in (
        *("steps/s", "spread", "server ms", "p50 ms", "p95 ms", "probe p95"),
        *("KiB/session", "local"),
    ):
        shown.add_column(column, justify="right")
    for result in results:
        shown.add_row(
            result.environment,
            f"{result.workers} processes" if result.workers else "threads",
            f"{result.steps_per_s:,.0f}",
            f"{min(result.repeats):,.0f} to {max(result.repeats):,.0f}",
            f"{result.server_ms:.2f}",
            f"{result.p50_ms:.1f}",
            f"{result.p95_ms:.1f}",
            f"{result.probe_p95_ms:.1f}",
            f"{result.kib_per_session:,.0f}",
            f"{result.local_steps_per_s:,.0f}",
        )
    return shown


if __name__ == "__main__":
    main()
