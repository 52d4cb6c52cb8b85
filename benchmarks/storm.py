"""Load test of an environment server with faults: sessions at once, a third of the calls disturbed.

    python benchmarks/storm.py sciworld --options worlds=256 --seconds 600

A run replaces the one of the same environment in `--out`, which has a run of each.

Between the client and the server is a proxy. Of every nine requests it holds one back for
`--slow-s`, breaks the connection before one, and breaks it after one, whose answer is then lost
although the server has acted. Each session plays random admissible actions, episode after episode,
and waits `--think-s` before each, as for a model's reply.

Afterwards some of the completed episodes are played again, alone and without the proxy: an episode
that differs was polluted, by another session or by an action that was taken twice. The resident
memory of the server and of all that it has started is sampled all the time: flat means that the
last third is no larger than the second.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from processes.served import resident_kib, server
from report.machine import machine

from agentrl_envs import registry
from agentrl_envs.client.http import ClientOptions
from agentrl_envs.client.remote_world import RemoteWorld
from agentrl_envs.env import Task
from agentrl_envs.errors import SessionError
from agentrl_pipelines.cli.env_commands.source import parse_options

MOST_TURNS = 12
TASKS = 500
"""Training tasks that are dealt. BabyAI builds every world up to an index, to tell equal ones."""
SAMPLE_S = 5.0
CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run does. Times are in seconds."""

    name: str
    options: tuple[str, ...]
    sessions: int
    seconds: float
    ramp_s: float
    think_s: float
    slow_s: float
    replays: int

    @property
    def command(self) -> str:
        """The command that runs it."""
        return (
            f"python benchmarks/storm.py {self.name} --sessions {self.sessions} "
            f"--seconds {self.seconds:g} --think-s {self.think_s:g}"
            + "".join(f" --options {each}" for each in self.options)
        )


@dataclass(slots=True)
class Episode:
    """A completed episode: what was done and shown."""

    task: Task
    shown: list[str]
    actions: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What happened."""

    steps: int = 0
    episodes: int = 0
    lost: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    """Why sessions were lost: numbers and addresses are left out."""
    requests: int = 0
    slow: int = 0
    failed: int = 0
    cut: int = 0
    kept: list[Episode] = field(default_factory=list)
    """A sample of the completed episodes."""


class FaultyProxy:
    """Forwards connections to a server, and disturbs every third request."""

    def __init__(self, url: str, slow_s: float, tally: Tally) -> None:
        parts = urlsplit(url)
        self._to = (str(parts.hostname), int(parts.port or 80))
        self._slow_s = slow_s
        self._tally = tally
        self._draws = random.Random(0)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client."""
        upstream, sender = await asyncio.open_connection(*self._to)
        answers = asyncio.create_task(self._copy(upstream, writer))
        try:
            while (chunk := await reader.read(CHUNK)) and not answers.done():
                fault = self._fault(chunk)
                if fault == "failed":
                    break
                if fault == "slow":
                    await asyncio.sleep(self._slow_s)
                sender.write(chunk)
                await sender.drain()
                if fault == "cut":
                    break
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            answers.cancel()
            for each in (sender, writer):
                each.close()

    def _fault(self, chunk: bytes) -> str | None:
        if not chunk.startswith((b"POST", b"DELETE")):
            return None
        self._tally.requests += 1
        fault = self._draws.choice(("slow", "failed", "cut", *[None] * 6))
        if fault is not None:
            setattr(self._tally, fault, getattr(self._tally, fault) + 1)
        return fault

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                writer.write(chunk)
                await writer.drain()
        writer.close()


@click.command()
@click.argument("name")
@click.option("--options", multiple=True, metavar="KEY=VALUE", help="Options of the environment.")
@click.option("--sessions", default=256, show_default=True)
@click.option("--seconds", default=600.0, show_default=True)
@click.option("--ramp-s", default=30.0, show_default=True, help="Time to open all sessions.")
@click.option("--think-s", default=5.0, show_default=True, help="Pause before each action.")
@click.option("--slow-s", default=1.0, show_default=True)
@click.option("--replays", default=30, show_default=True, help="Episodes to play again.")
@click.option("--out", "path", default="benchmarks/results/storm.json", show_default=True)
def main(path: str, **settings: Any) -> None:
    """Load an environment server with faults, check for pollution, and write JSON."""
    asked, tally = Settings(**settings), Tally()
    options = parse_options(asked.options)
    texts = {key: json.dumps(value) for key, value in options.items()}
    capacity = 2 * asked.sessions
    with server(asked.name, workers=0, capacity=capacity, options=texts) as (url, pid):
        memory = asyncio.run(load(url, pid, asked, tally))
    polluted = [each.task.id for each in tally.kept if differs(asked.name, options, each)]
    third, tenth = len(memory) // 3, max(1, len(memory) // 10)
    counts = {key: value for key, value in asdict(tally).items() if key != "kept"}
    written = {
        "environment": asked.name,
        **machine(),
        "command": asked.command,
        **counts,
        "replayed": len(tally.kept),
        "polluted": polluted,
        "mib": {
            "second third, most": max(memory[third : 2 * third], default=0),
            "last third, most": max(memory[2 * third :], default=0),
            "each tenth, most": [
                round(max(memory[start : start + tenth]), 1)
                for start in range(0, len(memory), tenth)
            ],
        },
    }
    record(Path(path), written)
    click.echo(json.dumps(written, indent=2))
    raise SystemExit(1 if polluted else 0)


def record(path: Path, run: dict[str, object]) -> None:
    """Write the run to the file, in place of an earlier one of the same environment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    kept = [each for each in runs if each["environment"] != run["environment"]]
    path.write_text(json.dumps({"runs": [*kept, run]}, indent=2) + "\n")


async def load(url: str, pid: int, settings: Settings, tally: Tally) -> list[float]:
    """Play through the proxy. Returns the server's memory in MiB, sampled over the time."""
    proxy = await asyncio.start_server(FaultyProxy(url, settings.slow_s, tally), "127.0.0.1", 0)
    address = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    until, memory = time.monotonic() + settings.seconds, list[float]()
    # A session that one stalled call costs says nothing about the server.
    patient = ClientOptions(call_s=120, retry_s=110)
    async with proxy, RemoteWorld.connected(address, options=patient) as world:
        players = (play(world, index, until, settings, tally) for index in range(settings.sessions))
        playing = asyncio.gather(*players)
        while not playing.done():
            memory.append(resident_kib(pid) / 1024)
            await asyncio.wait([playing], timeout=SAMPLE_S)
        await playing
    return memory


async def play(
    world: RemoteWorld, index: int, until: float, settings: Settings, tally: Tally
) -> None:
    """Play episodes in one session, until the clock shows `until`. Sessions begin one after another
    over `settings.ramp_s` seconds."""
    draws = random.Random(index)
    await asyncio.sleep(index * settings.ramp_s / settings.sessions)
    while time.monotonic() < until:
        session = world.session()
        try:
            task = await world.task("train", draws.randrange(TASKS))
            seen = await session.reset(task)
            episode = Episode(task, [seen.text])
            for _ in range(MOST_TURNS):
                action = draws.choice(seen.admissible or ("look around",))
                await asyncio.sleep(settings.think_s)
                step = await session.step(action)
                seen = step.observation
                tally.steps += 1
                episode.actions.append(action)
                episode.rewards.append(step.reward)
                episode.shown.append(seen.text)
                if step.terminated or step.truncated:
                    break
            tally.episodes += 1
            if len(tally.kept) < settings.replays or draws.random() < 0.02:
                tally.kept[settings.replays - 1 :] = [episode]
        except SessionError as error:
            tally.lost += 1
            reason = re.sub(r"\S*\d\S*", "N", str(error))[:160]
            tally.reasons[reason] = tally.reasons.get(reason, 0) + 1
        finally:
            await session.close()


def differs(name: str, options: dict[str, object], episode: Episode) -> bool:
    """Whether the same actions show or earn something else in a session alone."""
    environment = registry.task_set(name, options).environment()
    shown = [environment.reset(episode.task).text]
    steps = [environment.step(action) for action in episode.actions]
    environment.close()
    shown += [step.observation.text for step in steps]
    return shown != episode.shown or [step.reward for step in steps] != episode.rewards


if __name__ == "__main__":
    main()
