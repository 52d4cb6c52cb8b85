"""Ablation of the environment client: what connection pools and step batching are worth.

    python benchmarks/client.py --seconds 5 --repeats 5

One server with threads is played by 64 sessions of a random admissible policy, once with each
variant of `ClientOptions`; the variants take turns, so that the load of the machine strikes all of
them alike. `steps/s` is the median of the repeats, `spread` the slowest and the fastest.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from pathlib import Path

import click
from envs import play
from processes.served import processor_s, server
from report.machine import machine
from rich.console import Console
from rich.table import Table

from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld

VARIANTS = {
    "32 pools, batching": ClientOptions(),
    "32 pools, no batching": ClientOptions(batch_steps=False),
    "8 pools, no batching": ClientOptions(pools=8, batch_steps=False),
    "1 pool, batching": ClientOptions(pools=1),
    "1 pool, no batching": ClientOptions(pools=1, batch_steps=False),
}


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="Of load, for each variant.")
@click.option("--sessions", default=64, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--environment", "-e", "name", default="babyai", show_default=True)
@click.option("--out", "path", default="benchmarks/results/client.json", show_default=True)
def main(seconds: float, sessions: int, repeats: int, name: str, path: str) -> None:
    """Measure, print a table, write JSON."""
    runs: dict[str, list[tuple[float, float, float]]] = {variant: [] for variant in VARIANTS}
    with server(name, workers=0, capacity=sessions) as (url, pid):
        asyncio.run(measured(url, pid, ClientOptions(), sessions, 1.0))  # imports, first tasks
        for _ in range(repeats):
            for variant, options in VARIANTS.items():
                runs[variant].append(asyncio.run(measured(url, pid, options, sessions, seconds)))
    table = Table(box=None, pad_edge=False, title=f"{name}, {sessions} sessions at once")
    for column in ("client", "steps/s", "spread", "server ms", "client ms"):
        table.add_column(column, justify="left" if column == "client" else "right")
    for variant, measurements in runs.items():
        rates, server_ms, client_ms = (list(each) for each in zip(*measurements, strict=True))
        table.add_row(
            variant,
            f"{statistics.median(rates):,.0f}",
            f"{min(rates):,.0f} to {max(rates):,.0f}",
            f"{statistics.median(server_ms):.2f}",
            f"{statistics.median(client_ms):.2f}",
        )
    Console().print(table)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    written = {**machine(), "runs": runs}
    Path(path).write_text(json.dumps(written, indent=2) + "\n")
    click.echo(f"written: {path}")


async def measured(
    url: str, pid: int, options: ClientOptions, count: int, seconds: float
) -> tuple[float, float, float]:
    """Steps per second, and processor milliseconds of server and client for one step."""
    async with RemoteWorld.connected(url, options=options) as world:
        sessions = [world.session() for _ in range(count)]
        first = await asyncio.gather(
            *[
                session.reset(await world.task("train", index))
                for index, session in enumerate(sessions)
            ]
        )
        latencies: list[float] = []
        began, until = time.monotonic(), time.monotonic() + seconds
        server_s, client_s = processor_s(pid), time.process_time()
        await asyncio.gather(
            *(
                play(world, session, seen, index, until, latencies)
                for index, (session, seen) in enumerate(zip(sessions, first, strict=True))
            )
        )
        took_s = time.monotonic() - began
        server_s, client_s = processor_s(pid) - server_s, time.process_time() - client_s
        await asyncio.gather(*(session.close() for session in sessions))
    steps = len(latencies)
    return steps / took_s, server_s / steps * 1e3, client_s / steps * 1e3


if __name__ == "__main__":
    main()
