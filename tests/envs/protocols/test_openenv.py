"""OpenEnv's protocol both ways. With `OPENENV_PYTHON`, the path of a Python that has openenv-core
0.3.0, its own client and server are on the other side."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from free_ports import silent_port
from websockets.sync.client import connect

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.conformance.check import check
from agentrl_envs.env import TaskSet
from agentrl_envs.environments.corridor import CorridorOptions, CorridorTasks
from agentrl_envs.errors import CapacityError, OptionError, SessionError, UnreachableError
from agentrl_envs.protocols.agentgym_server import FIRST_HELDOUT
from agentrl_envs.protocols.connect import open_world
from agentrl_envs.protocols.openenv_client import text_field
from agentrl_envs.protocols.openenv_server import openenv_gateway
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

THEIR_CLIENT = """
import asyncio, json, sys
from openenv.core.generic_client import GenericEnvClient

async def play():
    async with GenericEnvClient(base_url=sys.argv[1]) as env:
        first = await env.reset(seed=3)
        step = await env.step({"message": first.observation["admissible"][0]})
        state = await env.state()
        print(json.dumps([first.observation["text"], step.reward, step.done, state["step_count"]]))

asyncio.run(play())
"""

THEIR_SERVER = """
import sys, uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

class Guess(Action):
    message: str

class Seen(Observation):
    text: str = ""

class Guessing(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    def __init__(self):
        super().__init__()
        self.number = 0
    def reset(self, seed=None, episode_id=None, **kwargs):
        self.number = seed or 0
        return Seen(text=f"Guess a number near {self.number + 1}.")
    def step(self, action, timeout_s=None, **kwargs):
        right = action.message.strip() == str(self.number)
        return Seen(text="right" if right else "wrong", reward=float(right), done=right)
    @property
    def state(self):
        return State()

app = create_fastapi_app(Guessing, Guess, Seen, max_concurrent_envs=4)
uvicorn.run(app, fd=int(sys.argv[1]), log_level="critical")
"""


@contextmanager
def served(tasks: TaskSet, **options: object) -> Iterator[str]:
    gateway, executor = openenv_gateway(tasks), ThreadExecutor(tasks)
    app = create_app(tasks, executor, ServerOptions(**options), gateway=gateway)
    with running(app, websockets=True) as url:
        yield url


def client(url: str, **options: object) -> BlockingTaskSet:
    # OpenEnv's own server imports for a minute on a busy machine.
    return BlockingTaskSet(partial(open_world, "openenv", url, options, timeout_s=300.0))


def python() -> str:
    """The Python with openenv-core; skips the test without one."""
    found = os.environ.get("OPENENV_PYTHON")
    if not found:
        pytest.skip("OPENENV_PYTHON names no Python with openenv-core")
    return found


def test_our_client_and_our_server_keep_the_contract():
    with (
        served(CorridorTasks()) as url,
        client(url, train="0-29", heldout=f"{FIRST_HELDOUT}-{FIRST_HELDOUT + 9}") as tasks,
    ):
        report = check(tasks, tasks=1)
    # OpenEnv says neither which replies are well-formed nor whether an end is a failure.
    assert set(report.failed()) <= {"invalid-reply", "success"}, str(report)


def test_a_seed_is_an_index_and_a_connection_a_session():
    tasks = CorridorTasks(CorridorOptions(turns=9))
    with served(tasks, capacity=1) as url, client(url) as remote:
        session, other = remote.environment(), remote.environment()
        expected = tasks.environment().reset(tasks.task("heldout", 2)).text
        assert session.reset(remote.task("heldout", 2)).text == expected
        with pytest.raises(CapacityError, match="1 sessions"):
            other.reset(remote.task("train", 0))
        session.close()
        session.close()


def test_messages_that_are_wrong_get_a_code_and_the_session_lives_on():
    address = {"reset": {"type": "reset", "data": {"seed": 1}}}
    with (
        served(CorridorTasks()) as url,
        connect(f"ws{url.removeprefix('http')}/ws", proxy=None) as raw,
    ):

        def ask(message: object) -> dict:
            raw.send(message if isinstance(message, str) else json.dumps(message))
            return json.loads(raw.recv(timeout=60))

        assert ask("{")["data"]["code"] == "INVALID_JSON"
        assert ask({"type": "dance"})["data"]["code"] == "UNKNOWN_TYPE"
        assert ask({"type": "step", "data": {"message": "x"}})["data"]["code"] == "VALIDATION_ERROR"
        assert ask({"type": "reset", "data": {"seed": -1}})["data"]["code"] == "VALIDATION_ERROR"
        assert ask(address["reset"])["type"] == "observation"
        assert ask({"type": "step", "data": {}})["data"]["code"] == "VALIDATION_ERROR"
        assert ask({"type": "step", "data": {"message": "x"}})["data"]["done"] is False
        assert ask({"type": "state"})["data"]["step_count"] == 1


def test_a_websocket_needs_the_token_and_takes_it_as_the_password_of_the_url():
    with served(CorridorTasks(), token="sesame") as url:
        address = f"ws{url.removeprefix('http')}/ws"
        with pytest.raises(Exception, match="403"), connect(address, proxy=None):
            pass
        with connect(address.replace("//", "//any:sesame@"), proxy=None) as raw:
            raw.send('{"type": "reset"}')
            assert json.loads(raw.recv(timeout=60))["type"] == "observation"


def test_the_text_field_is_told_by_the_schema_or_by_the_option():
    schema = {"properties": {"message": {"type": "string"}, "metadata": {}, "n": {"type": "int"}}}
    assert text_field(schema, None, "actionField") == "message"
    assert text_field(schema, "n", "actionField") == "n"
    with pytest.raises(OptionError, match="actionField: there is no m; use one of message, n"):
        text_field(schema, "m", "actionField")
    with pytest.raises(OptionError, match="the schema has 0 text fields"):
        text_field({"properties": {}}, None, "observationField")


def test_a_server_that_is_down_is_unreachable():
    told = pytest.raises(UnreachableError, match="check that it is running")
    with silent_port() as port, told:
        client(f"http://127.0.0.1:{port}")


@pytest.mark.slow
def test_openenvs_own_client_plays_our_server():
    tasks = CorridorTasks(CorridorOptions(turns=9))
    command = [python(), "-c", THEIR_CLIENT]
    with served(tasks) as url:
        done = subprocess.run([*command, url], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    expected = tasks.environment().reset(tasks.task("train", 3)).text
    assert json.loads(done.stdout)[0] == expected
    assert json.loads(done.stdout)[2:] == [False, 1]


@pytest.mark.slow
def test_our_client_plays_openenvs_own_server():
    command = [python(), "-c", THEIR_SERVER]  # skips without OpenEnv
    bound = socket.create_server(("127.0.0.1", 0))
    process = subprocess.Popen(
        [*command, str(bound.fileno())], pass_fds=[bound.fileno()], stderr=subprocess.DEVNULL
    )
    try:
        with client(f"http://127.0.0.1:{bound.getsockname()[1]}", train="5-9") as tasks:
            session = tasks.environment()
            assert session.reset(tasks.task("train", 0)).text == "Guess a number near 6."
            wrong, right = session.step("4"), session.step("5")
            assert (wrong.reward, wrong.terminated) == (0.0, False)
            assert (right.reward, right.terminated, right.success) == (1.0, True, True)
            with pytest.raises(SessionError):
                session.step("5")
            session.close()
    finally:
        process.kill()
        process.communicate()
        bound.close()
