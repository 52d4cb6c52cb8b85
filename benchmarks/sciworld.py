"""SciWorld beside AgentGym's own server: steps per second and memory per session, in one run.

    python benchmarks/sciworld.py --agentgym DIR --python DIR/venv/bin/python \\
      --out docs/measurements/sciworld-upstream.json

DIR is a checkout of github.com/WooooDyy/AgentGym, and `--python` an interpreter with fastapi,
uvicorn and scienceworld 1.2.3, which its server needs. Both servers play the same tasks with the
same commands: AgentGym's with a JVM for each session, ours (`text: agentgym`) with its default of
one JVM for all. Each is driven by its own protocol, one request after another in each session.

Columns: sessions; open s: seconds to open all sessions and set up their tasks; steps/s; resident
memory of the server with all its JVMs, less that of the server without a session, per session.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import httpx
from rich.console import Console
from rich.table import Table
from served import process_tree, resident_kib
from served import server as our_server

from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.environments.sciworld import SciWorldOptions, SciWorldTasks

COMMANDS = (
    "look around",
    "open door to kitchen",
    "go to kitchen",
    "inventory",
    "open door to outside",
    "go to outside",
    "look around",
    "pick up axe",
    "wait1",
    "put down axe",
    "go to kitchen",
    "look at thermometer",
)
"""Commands of an episode, without one that ends it. Not all are possible from every room."""
START_S = 120.0

Step = Callable[[int, str], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Measurements of one server."""

    server: str
    sessions: int
    jvms: int
    open_s: float
    steps: int
    steps_per_s: float
    mib_per_session: float


@click.command()
@click.option("--agentgym", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--python", default=sys.executable, help="Interpreter of AgentGym's server.")
@click.option("--seconds", default=20.0, show_default=True, help="Duration of each load.")
@click.option("--theirs", default=8, show_default=True, help="Sessions of AgentGym's server.")
@click.option("--ours", default=(8, 64), multiple=True, show_default=True, help="Sessions.")
@click.option("--out", "path", default="benchmarks/results/sciworld.json", show_default=True)
def main(
    agentgym: Path, python: str, seconds: float, theirs: int, ours: tuple[int, ...], path: str
) -> None:
    """Compare both servers: print a table and write JSON."""
    with agentgym_server(agentgym, python) as (url, pid):
        upstream = asyncio.run(measure_agentgym(url, pid, theirs, seconds))
    results = [upstream]
    for count in ours:
        options = {"text": '"agentgym"', "worlds": str(count)}
        with our_server("sciworld", workers=0, capacity=count, options=options) as (url, pid):
            results.append(asyncio.run(measure_ours(url, pid, count, seconds)))
    Console().print(table(results))
    best = results[-1]
    ratios = {
        "steps_per_s": best.steps_per_s / upstream.steps_per_s,
        "memory_per_session": best.mib_per_session / upstream.mib_per_session,
    }
    click.echo(f"{best.sessions} sessions beside {upstream.sessions} of AgentGym: {ratios}")
    written = {
        "command": "python benchmarks/sciworld.py --agentgym DIR --python PYTHON "
        f"--seconds {seconds:g}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "results": [asdict(result) for result in results],
        "ratios": ratios,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(written, indent=2) + "\n")


@contextmanager
def agentgym_server(source: Path, python: str) -> Iterator[tuple[str, int]]:
    """AgentGym's server in a process of its own. Yields its URL and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["-m", "uvicorn", "agentenv_sciworld:app", "--log-level", "error"]
    process = subprocess.Popen(
        [python, *arguments, "--port", str(port)],
        cwd=source / "agentenv-sciworld",
        stdout=subprocess.DEVNULL,
    )
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while True:
            try:
                httpx.get(url, timeout=5).raise_for_status()
                break
            except httpx.TransportError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(timeout=60)


def item_ids(count: int) -> list[int]:
    """AgentGym's item ids of the first training tasks."""
    tasks = SciWorldTasks(SciWorldOptions())
    return [int(tasks.task("train", index).payload["item"]) for index in range(count)]


async def measure_agentgym(url: str, pid: int, count: int, seconds: float) -> Result:
    """Load AgentGym's server."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as http:

        async def post(path: str, **body: object) -> dict[str, object]:
            response = await http.post(path, json=body)
            answer: dict[str, object] = response.raise_for_status().json()
            if "error" in answer:
                raise RuntimeError(f"{path}: {answer['error']}")
            return answer

        async def step(index: int, command: str) -> object:
            return await post("/step", id=ids[index], action=command)

        idle, began = resident_kib(pid), time.monotonic()
        ids = [(await post("/create"))["id"] for _ in range(count)]
        for number, item in zip(ids, item_ids(count), strict=True):
            await post("/reset", id=number, data_idx=item)
        opened = time.monotonic() - began
        return await measured("AgentGym", pid, count, seconds, idle, opened, step)


async def measure_ours(url: str, pid: int, count: int, seconds: float) -> Result:
    """Load our server."""
    async with RemoteWorld.connected(url) as world:
        idle, began = resident_kib(pid), time.monotonic()
        sessions = [world.session() for _ in range(count)]
        tasks = [await world.task("train", index) for index in range(count)]
        for session, task in zip(sessions, tasks, strict=True):  # in turn, as AgentGym's are
            await session.reset(task)
        opened = time.monotonic() - began

        async def step(index: int, command: str) -> object:
            done = await sessions[index].step(f"Thought:\n\nAction:\n{command}")
            if done.terminated or done.truncated:
                await sessions[index].reset(tasks[index])
            return done

        return await measured("AgentRL", pid, count, seconds, idle, opened, step)


async def measured(
    name: str, pid: int, count: int, seconds: float, idle_kib: int, open_s: float, step: Step
) -> Result:
    """Play in all sessions at once for `seconds`."""
    taken, began = 0, time.monotonic()

    async def play(index: int) -> None:
        nonlocal taken
        turn = index
        while time.monotonic() < began + seconds:
            await step(index, COMMANDS[turn % len(COMMANDS)])
            taken, turn = taken + 1, turn + 1

    await asyncio.gather(*(play(index) for index in range(count)))
    took = time.monotonic() - began
    return Result(
        server=name,
        sessions=count,
        jvms=sum("java" in each.name() for each in process_tree(pid)),
        open_s=open_s,
        steps=taken,
        steps_per_s=taken / took,
        mib_per_session=(resident_kib(pid) - idle_kib) / 1024 / count,
    )


def table(results: list[Result]) -> Table:
    """The results as a table."""
    shown = Table("server", "sessions", "JVMs", "open s", "steps/s", "MiB/session")
    for one in results:
        shown.add_row(
            one.server,
            str(one.sessions),
            str(one.jvms),
            f"{one.open_s:.1f}",
            f"{one.steps_per_s:.1f}",
            f"{one.mib_per_session:.1f}",
        )
    return shown


if __name__ == "__main__":
    main()
