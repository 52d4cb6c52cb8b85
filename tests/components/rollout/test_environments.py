import asyncio
import json
import os
import ssl
from dataclasses import replace
from typing import Any

import pytest
from certificates import write_certificate
from corridor_jobs import jobs
from corridor_rules import RULES
from cryptography import x509
from free_ports import free_ports
from spawned_processes import spawned

from agentrl_components.dialogue.plain import PlainDialogue
from agentrl_components.dialogue.word_tokenizer import word_tokenizer
from agentrl_components.engines.engine import Engine, Generation, Request
from agentrl_components.engines.random_policy import RandomEngine
from agentrl_components.errors import SpecError
from agentrl_components.rollout.environments import open_world, open_worlds, servers
from agentrl_components.rollout.token_rollout import TokenRollout
from agentrl_components.spec import Environment
from agentrl_components.trajectory.record import Trajectory
from agentrl_envs.calls.watch import CallWatch
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import SessionError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running
from agentrl_envs.world import LocalWorld


def test_each_server_behind_a_name_has_an_address_of_its_own():
    found = asyncio.run(servers("http://localhost:8080/base"))
    assert "http://127.0.0.1:8080/base" in found
    assert len(found) == len(set(found))


def test_a_name_that_does_not_resolve_is_a_session_error():
    with pytest.raises(SessionError, match=r"nowhere\.invalid has no address"):
        asyncio.run(servers("http://nowhere.invalid:8080"))


def test_an_environment_that_waits_for_a_service_does_not_hold_up_the_others(tmp_path):
    """Its calls run in threads; those of one that computes, on the event loop."""
    for split in ("train", "heldout"):
        rows = [{"question": f"{split} {n}", "golden_answers": ["x"]} for n in range(2)]
        (tmp_path / split).write_text("\n".join(json.dumps(row) for row in rows))
    file = {"dataset": "nq", "path": str(tmp_path / "train"), "split": "train"}
    other = {"dataset": "nq", "path": str(tmp_path / "heldout"), "split": "heldout"}
    retriever = {"kind": "search-r1", "url": "http://127.0.0.1:9/retrieve"}
    options = {"questions": [file, other], "retriever": retriever}

    assert runs_in_threads("search", options)
    assert not runs_in_threads("search", {})


def test_a_game_of_textworld_that_is_compiled_does_not_hold_up_the_others():
    pytest.importorskip("textworld", reason="pip install '.[textworld]'")
    assert runs_in_threads("textworld", {})


def runs_in_threads(builtin: str, options: dict[str, Any]) -> bool:
    async def opened() -> bool:
        world = await open_world(Environment(name="e", builtin=builtin, options=options))
        assert isinstance(world, LocalWorld)
        return world.in_threads

    return asyncio.run(opened())


def test_a_program_that_does_not_start_is_an_error_of_the_manifest(monkeypatch, tmp_path):
    """Regression: each session was lost, one after another."""
    pytest.importorskip("scienceworld", reason="pip install '.[science]'")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'no such option: -version' >&2; exit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    message = (
        rf"spec\.environments\[2\]: sciworld: {java} does not run \(no such option: -version\); "
        "check that `java -version` says 8 or newer; apt-get install openjdk-17-jre-headless"
    )
    alone = Environment(name="s", builtin="sciworld", options={"worlds": 7})  # no JVM runs for it
    with pytest.raises(SpecError, match=message):
        asyncio.run(open_world(alone, 2))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("sciworld", "Java 17 is not installed; apt-get install openjdk-17-jre-headless"),
        ("web", "Chromium is not installed; apt-get install chromium-headless-shell"),
        ("miniwob", "Chromium is not installed; apt-get install chromium-headless-shell"),
    ],
)
def test_a_missing_program_is_an_error_of_the_manifest(name, missing, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpecError, match=rf"spec\.environments\[0\]: {name}: {missing}"):
        asyncio.run(open_world(Environment(name="e", builtin=name)))


async def episodes(workers: int, engine: Engine) -> list[Trajectory]:
    """Eight episodes, played in an environment with `workers` processes."""
    words = word_tokenizer(CorridorTasks().vocabulary() or ()).get_vocab()
    environment = Environment(name="corridor", builtin="corridor", replicas=0, workers=workers)
    worlds = await open_worlds([environment])
    rollout = TokenRollout(worlds, PlainDialogue(words), retries=1, concurrency=8)
    try:
        return await rollout.play(jobs(8), replace(RULES, admissible=True), engine)
    finally:
        await rollout.close()
        await worlds["corridor"].close()


class KillsAProcess(RandomEngine):
    """The random policy, which kills a process with environments before its 11th reply."""

    def __init__(self) -> None:
        self._replies = 0
        self._others = spawned()

    async def generate(self, request: Request) -> Generation:
        self._replies += 1
        if self._replies == 11:
            spawned(but=self._others)[0].kill()
        return await super().generate(request)


@pytest.mark.parametrize("engine", [RandomEngine, KillsAProcess])
def test_episodes_with_environments_in_processes_are_the_same_even_if_one_is_killed(engine):
    expected = asyncio.run(episodes(0, RandomEngine()))
    found = asyncio.run(episodes(2, engine()))
    for one, other in zip(found, expected, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert (one.score, one.ending, one.task) == (other.score, other.ending, other.task)


class Names(asyncio.SelectorEventLoop):
    """An event loop that resolves `worlds.test` to the addresses that a test chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.host = "127.0.0.1"

    async def getaddrinfo(self, host, port, **options):
        known = host in ("worlds.test", b"worlds.test")
        return await super().getaddrinfo(self.host if known else host, port, **options)


class Relay:
    """An address that forwards to a server on 127.0.0.1 until it is closed."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._tls = tls
        self._under_way: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> None:
        self._server = await asyncio.start_server(self._led, host, port, ssl=self._tls)

    async def close(self) -> None:
        self._server.close()
        for each in self._under_way:
            each.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _led(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._lead(reader, writer))
        self._under_way.add(task)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            writer.close()
            back.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while some := await reader.read(1 << 16):
        writer.write(some)
        await writer.drain()
    writer.close()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_server_is_found_after_its_name_resolves_to_another_address(replicas, monkeypatch):
    monkeypatch.setenv("WORLDS_TOKEN", "t")

    async def played(behind: int, loop: Names) -> None:
        first, later = Relay(behind), Relay(behind)
        (port,) = free_ports(1)
        await first.open("127.0.0.1", port)
        environment = Environment(
            name="rooms",
            url=f"http://worlds.test:{port}",
            replicas=replicas,
            token_env="WORLDS_TOKEN",
        )
        world = await open_world(environment)
        session = world.session()
        await session.reset(await world.task("train", 0))
        await first.close()
        await later.open("127.0.0.2", port)
        loop.host = "127.0.0.2"
        await session.reset(await world.task("train", 64))
        assert (await session.step("left")).wellformed
        await session.close()
        await world.close()
        await later.close()

    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(token="t"))
    with running(app) as url, asyncio.Runner(loop_factory=Names) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, Names)
        runner.run(played(int(url.rpartition(":")[2]), loop))


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_certificate_names_the_host_of_the_url_however_many_servers(
    replicas, monkeypatch, tmp_path
):
    """Regression: of several servers each was expected to have a certificate for its address."""
    write_certificate(tmp_path / "certs", x509.DNSName("worlds.test"))
    monkeypatch.setenv("WORLDS_TOKEN", "t")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certs/public.crt"))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "certs/public.crt", tmp_path / "certs/private.key")

    async def played(behind: int) -> None:
        relay = Relay(behind, tls)
        (port,) = free_ports(1)
        await relay.open("127.0.0.1", port)
        environment = Environment(
            name="rooms",
            url=f"https://worlds.test:{port}",
            replicas=replicas,
            token_env="WORLDS_TOKEN",
        )
        world = await open_world(environment)
        session = world.session()
        await session.reset(await world.task("train", 0))
        assert (await session.step("left")).wellformed
        await session.close()
        await world.close()
        await relay.close()

    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(token="t"))
    with running(app) as url, asyncio.Runner(loop_factory=Names) as runner:
        runner.run(played(int(url.rpartition(":")[2])))


def test_the_timeout_of_the_manifest_ends_a_call_in_a_worker_process(tmp_path):
    async def hang() -> None:
        world = await open_world(
            Environment(
                name="e",
                builtin="blocking_tasks:HangingTasks",
                options={"file": str(tmp_path / "hangs")},
                replicas=0,
                workers=1,
                timeout_s=2.0,
            )
        )
        session = world.session()
        try:
            await session.reset(await world.task("train", 0))
            await session.step("hang")
        finally:
            await session.close()
            await world.close()

    with pytest.raises(SessionError, match=r"step of task \S+ took longer than 2 s"):
        asyncio.run(hang())


@pytest.mark.parametrize("workers", [0, 1])
def test_a_task_set_whose_construction_hangs_is_reported(tmp_path, workers):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        pipe.write_text("go on")

    environment = Environment(
        name="lights",
        builtin="blocking_tasks:WaitingConstruction",
        options={"pipe": str(pipe)},
        replicas=0,
        workers=workers,
    )
    asyncio.run(open_world(environment, watch=CallWatch(report, first_s=0.1)))
    assert lines == ["environment lights: construction of its task set has been running for 0 s"]
