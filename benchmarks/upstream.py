"""Environment servers beside AgentGym's own: steps per second and memory per session, in one run.

    python benchmarks/upstream.py --agentgym DIR --python DIR/venv/bin/python

DIR is a checkout of github.com/WooooDyy/AgentGym, and `--python` an interpreter with the packages
that its servers need: fastapi, uvicorn, and minigrid and gym (BabyAI) or scienceworld 1.2.3
(SciWorld). Both servers of an environment play the same tasks with the same commands, ours in its
form for comparison with published results (`compat: agentgym`, or `text: agentgym` of SciWorld).
Each is driven by its own protocol, one request after another in each session.

Columns: sessions; open s: seconds to open all sessions and set up their tasks; steps/s; resident
memory of the server with all that it has started, less that of the server without a session, per
session. WebArena's server needs its sites, SearchQA's an index of Wikipedia, and those of LMRL-Gym
a package that is on no registry, so these have no row.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx
from processes.served import resident_kib
from processes.served import server as our_server
from report.machine import machine
from rich.console import Console
from rich.table import Table

from agentrl_envs import registry
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An environment that both sides serve."""

    options: dict[str, str]
    """Of our server."""
    commands: tuple[str, ...]
    """Commands of an episode, of which none ends it. Not all are possible everywhere."""
    theirs: int
    """Sessions of AgentGym's server."""
    ours: int
    item: Callable[[Task, int], int]
    """AgentGym's id of a task of ours, from the task and its index."""


WORLDS = {
    "babyai": World(
        options={"text": "agentgym", "compat": "agentgym", "ids": "agentgym"},
        commands=("turn left", "move forward", "turn right", "move forward", "turn right"),
        theirs=64,
        ours=64,
        item=lambda task, _: int(task.payload["data_idx"]),
    ),
    "textcraft": World(
        options={"text": "agentgym", "compat": "agentgym", "ids": "agentgym"},
        commands=(
            "inventory",
            "get 1 oak logs",
            "inventory",
            "craft 4 oak planks using 1 oak logs",
        ),
        theirs=64,
        ours=64,
        item=lambda _, index: index,
    ),
    "sciworld": World(
        options={"text": "agentgym", "worlds": "64"},
        commands=(
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
        ),
        theirs=2,  # each of AgentGym's sessions is a JVM of 430 MB
        ours=16,
        item=lambda task, _: int(task.payload["item"]),
    ),
}
START_S = 120.0
CLIENTS = 8
"""HTTP clients of AgentGym's server: httpx scans all connections of one for every request."""

Step = Callable[[int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Measurements of one server."""

    environment: str
    server: str
    sessions: int
    open_s: float
    steps: int
    steps_per_s: float
    mib_per_session: float


@click.command()
@click.option("--agentgym", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--python", default=sys.executable, help="Interpreter of AgentGym's servers.")
@click.option("--environment", "-e", "chosen", multiple=True, type=click.Choice(list(WORLDS)))
@click.option("--seconds", default=15.0, show_default=True, help="Duration of each load.")
@click.option("--out", "path", default="benchmarks/results/upstream.json", show_default=True)
def main(agentgym: Path, python: str, chosen: tuple[str, ...], seconds: float, path: str) -> None:
    """Compare both servers of each environment: print a table and write JSON."""
    results, ratios = list[Result](), dict[str, dict[str, float]]()
    for name in chosen or WORLDS:
        pair = theirs, ours = asyncio.run(compare(name, agentgym, python, seconds))
        results += pair
        ratios[name] = {
            "steps_per_s": ours.steps_per_s / theirs.steps_per_s,
            "memory_per_session": ours.mib_per_session / theirs.mib_per_session,
        }
    Console().print(table(results))
    for name, ratio in ratios.items():
        click.echo(f"{name}: ours to AgentGym's {ratio}")
    written = {
        **machine(),
        "command": "python benchmarks/upstream.py --agentgym DIR --python PYTHON",
        "seconds": seconds,
        "results": [asdict(result) for result in results],
        "ratios": ratios,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(written, indent=2) + "\n")


async def compare(name: str, agentgym: Path, python: str, seconds: float) -> tuple[Result, Result]:
    """AgentGym's server and ours, one after the other."""
    world = WORLDS[name]
    tasks = registry.task_set(name, world.options)
    dealt = [tasks.task("train", index) for index in range(max(world.theirs, world.ours))]
    with agentgym_server(agentgym, name, python) as (url, pid):
        items = [world.item(task, index) for index, task in enumerate(dealt[: world.theirs])]
        theirs = await measure_agentgym(name, url, pid, items, seconds)
    texts = {key: json.dumps(value) for key, value in world.options.items()}
    with our_server(name, workers=0, capacity=world.ours, options=texts) as (url, pid):
        ours = await measure_ours(name, url, pid, dealt[: world.ours], seconds)
    return theirs, ours


@contextmanager
def agentgym_server(source: Path, name: str, python: str) -> Iterator[tuple[str, int]]:
    """AgentGym's server in a process of its own. Yields its URL and process id."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port, number = bound.getsockname()[1], bound.fileno()
        arguments = ["-m", "uvicorn", f"agentenv_{name}:app", "--log-level", "error"]
        process = subprocess.Popen(
            [python, *arguments, "--fd", str(number)],
            cwd=source / f"agentenv-{name}",
            stdout=subprocess.DEVNULL,
            pass_fds=[number],
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


async def measure_agentgym(
    name: str, url: str, pid: int, items: list[int], seconds: float
) -> Result:
    """Load AgentGym's server."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(httpx.AsyncClient(base_url=url, timeout=600))
            for _ in range(min(len(items), CLIENTS))
        ]

        async def post(index: int, path: str, **body: object) -> Any:
            response = await clients[index % CLIENTS].post(path, json=body)
            answer = response.raise_for_status().json()
            if isinstance(answer, dict) and "error" in answer:
                raise RuntimeError(f"{path}: {answer['error']}")
            return answer

        async def step(index: int, command: str) -> None:
            answer = await post(index, "/step", id=ids[index], action=command)
            if answer["done"]:
                await post(index, "/reset", id=ids[index], data_idx=items[index])

        idle, began = resident_kib(pid), time.monotonic()
        ids = list[int]()
        for index, item in enumerate(items):
            made = await post(index, "/create")
            ids.append(made["id"] if isinstance(made, dict) else made)
            await post(index, "/reset", id=ids[index], data_idx=item)
        opened = time.monotonic() - began
        load = Load(name, "AgentGym", pid, len(items), seconds, idle, opened)
        return await measured(load, step)


async def measure_ours(name: str, url: str, pid: int, dealt: list[Task], seconds: float) -> Result:
    """Load our server."""
    async with RemoteWorld.connected(url) as world:
        idle, began = resident_kib(pid), time.monotonic()
        sessions = [world.session() for _ in dealt]
        for session, task in zip(sessions, dealt, strict=True):  # in turn, as AgentGym's are
            await session.reset(task)
        opened = time.monotonic() - began

        async def step(index: int, command: str) -> None:
            done = await sessions[index].step(f"Thought:\n\nAction:\n{command}")
            if done.terminated or done.truncated:
                await sessions[index].reset(dealt[index])

        load = Load(name, "AgentRL", pid, len(dealt), seconds, idle, opened)
        return await measured(load, step)


class Load(NamedTuple):
    """A server whose sessions are open."""

    environment: str
    server: str
    pid: int
    sessions: int
    seconds: float
    idle_kib: int
    open_s: float


async def measured(load: Load, step: Step) -> Result:
    """Play in all sessions at once."""
    taken, began = 0, time.monotonic()
    commands = WORLDS[load.environment].commands

    async def play(index: int) -> None:
        nonlocal taken
        turn = index
        while time.monotonic() < began + load.seconds:
            await step(index, commands[turn % len(commands)])
            taken, turn = taken + 1, turn + 1

    await asyncio.gather(*(play(index) for index in range(load.sessions)))
    took = time.monotonic() - began
    return Result(
        environment=load.environment,
        server=load.server,
        sessions=load.sessions,
        open_s=load.open_s,
        steps=taken,
        steps_per_s=taken / took,
        mib_per_session=(resident_kib(load.pid) - load.idle_kib) / 1024 / load.sessions,
    )


def table(results: list[Result]) -> Table:
    """The results as a table."""
    shown = Table("environment", "server", "sessions", "open s", "steps/s", "MiB/session")
    for one in results:
        shown.add_row(
            one.environment,
            one.server,
            str(one.sessions),
            f"{one.open_s:.1f}",
            f"{one.steps_per_s:.1f}",
            f"{one.mib_per_session:.2f}",
        )
    return shown


if __name__ == "__main__":
    main()
