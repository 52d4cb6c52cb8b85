"""What our client makes of an OpenEnv server that answers otherwise than it should."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from websockets.sync.server import ServerConnection, serve

from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    OptionError,
    SessionError,
    UnreachableError,
    WorldError,
)
from agentrl_envs.protocols.openenv_client import OpenEnvConnection, connect
from agentrl_envs.protocols.options import OpenEnvOptions
from agentrl_envs.server.run import running

TIMEOUT_S = 60.0
LOST = "the connection is closed without an answer"
SILENCE = "there is no answer"


def seen(text: object = "a room", **more: object) -> dict[str, object]:
    """An observation."""
    data = {"observation": {"text": text}, "reward": 0.0, "done": False} | more
    return {"type": "observation", "data": data}


def refused(code: str, message: str = "no") -> dict[str, object]:
    return {"type": "error", "data": {"code": code, "message": message}}


class Server:
    """Answers the messages of all connections by a script. A string is sent as it is."""

    def __init__(self, *script: object) -> None:
        self._script = iter(script)
        self.connections = 0
        self.messages: list[dict[str, object]] = []
        self.ended = threading.Event()

    def __call__(self, connection: ServerConnection) -> None:
        self.connections += 1
        for text in connection:
            message = json.loads(text)
            if message == {"type": "close"}:
                continue
            self.messages.append(message)
            answer = next(self._script)
            if answer == LOST:
                return
            if answer == SILENCE:
                self.ended.wait(TIMEOUT_S)
            else:
                connection.send(answer if isinstance(answer, str) else json.dumps(answer))


@contextmanager
def session(
    server: Server, timeout_s: float = TIMEOUT_S, **options: float
) -> Iterator[OpenEnvConnection]:
    with serve(server, "127.0.0.1", 0) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{serving.socket.getsockname()[1]}"
            yield OpenEnvConnection(url, "message", "text", OpenEnvOptions(**options), timeout_s)
        finally:
            server.ended.set()
            serving.shutdown()
            thread.join()


async def test_rewards_add_up_to_the_score_and_an_end_with_a_full_score_is_a_success():
    script = (
        seen(),
        seen(reward=1),
        seen(reward=None),
        seen("out", reward=1.5, done=True),
        seen(),
        seen("out", reward=2, done=True),
    )
    server = Server(*script)
    with session(server, full_score=2.5) as remote:
        assert (await remote.reset(7)).text == "a room"
        first, second, last = [await remote.step(text) for text in ("n", "e", "s")]
        assert (first.raw_score, first.score, first.terminated) == (1.0, 0.4, False)
        assert (second.raw_score, second.success) == (1.0, False)
        assert (last.score, last.terminated, last.success) == (1.0, True, True)
        await remote.reset(8)  # begins at 0 again
        failed = await remote.step("s")
        assert (failed.score, failed.terminated, failed.success) == (0.8, True, False)
        await remote.close()
    assert server.connections == 1
    assert server.messages[:2] == [
        {"type": "reset", "data": {"seed": 7}},
        {"type": "step", "data": {"message": "n"}},
    ]


@pytest.mark.parametrize(("full_score", "success"), [(1.0, True), (1.001, False)])
async def test_a_full_score_that_is_a_sum_of_fractions_is_a_success(full_score, success):
    script = [seen(reward=0.1, done=number == 10) for number in range(1, 11)]
    with session(Server(seen(), *script), full_score=full_score) as remote:
        await remote.reset(1)
        *before, last = [await remote.step("n") for _ in script]
        await remote.close()
    assert last.raw_score == 0.9999999999999999  # ten times 0.1
    assert last.score == pytest.approx(1 / full_score, abs=1e-9)
    assert (any(answer.success for answer in before), last.success) == (False, success)


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (LOST, SessionError, "step was interrupted"),
        ("<html>", SessionError, "step was interrupted"),
        (refused("CAPACITY_REACHED", "all 8 are taken"), CapacityError, "all 8 are taken"),
        (refused("VALIDATION_ERROR", "text is missing"), ContractError, "check actionField"),
        (refused("EXECUTION_ERROR", "it broke"), SessionError, "step: 'it broke'"),
        ({"type": "state", "data": {}}, ContractError, "step answered {'type': 'state'"),
        ({"type": "observation"}, ContractError, "step answered"),
        ([1], ContractError, r"step answered \[1\]"),
    ],
)
async def test_an_answer_that_is_no_observation_ends_the_connection(answer, error, says):
    server = Server(seen(), answer, seen("again"))
    with session(server) as remote:
        await remote.reset(1)
        with pytest.raises(error, match=says) as caught:
            await remote.step("n")
        assert type(caught.value) is error
        assert (await remote.reset(2)).text == "again"
        await remote.close()
    assert server.connections == 2


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (seen(done="no"), "a step has done 'no' and reward 0.0; they must be a boolean and a"),
        (seen(done=None), "done None"),
        (seen(reward="1.0"), "reward '1.0'"),
        (seen(12), "text of an observation is 12, not text; check observationField"),
        (seen(observation="a room"), "text of an observation is None"),
        (seen(reward="x" * 300), "reward 'x{199}…;"),
    ],
)
async def test_a_step_whose_fields_have_other_types_breaks_the_contract(answer, says):
    with session(Server(seen(), answer)) as remote:
        await remote.reset(1)
        with pytest.raises(ContractError, match=says):
            await remote.step("n")
        await remote.close()


async def test_a_reset_on_a_connection_that_was_closed_meanwhile_is_sent_on_a_new_one():
    """Regression: after each update of more than 40 s, in which nobody answers pings, every kept
    connection cost an attempt of an episode."""
    server = Server(seen(), LOST, seen("again"), seen("north"))
    with session(server) as remote:
        await remote.reset(1)
        assert (await remote.reset(2)).text == "again"
        assert (await remote.step("n")).observation.text == "north"
        await remote.close()
    assert server.connections == 2
    assert [message["data"] for message in server.messages] == [
        {"seed": 1},
        {"seed": 2},
        {"seed": 2},
        {"message": "n"},
    ]


async def test_a_reset_that_also_a_new_connection_does_not_answer_loses_the_session():
    server = Server(seen(), LOST, LOST, LOST)
    with session(server) as remote:
        await remote.reset(1)
        with pytest.raises(SessionError, match="reset was interrupted"):
            await remote.reset(2)
        assert (server.connections, len(server.messages)) == (2, 3)
        with pytest.raises(SessionError, match="reset was interrupted"):
            await remote.reset(3)
    assert (server.connections, len(server.messages)) == (3, 4)


async def test_a_server_that_does_not_answer_in_time_is_unreachable():
    with (
        session(Server(SILENCE), timeout_s=0.05) as remote,
        pytest.raises(UnreachableError, match=r"reset got no answer \(timeout\)"),
    ):
        await remote.reset(1)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (HTMLResponse("no", 404), "GET /schema answered 404; check that it is an OpenEnv server"),
        (HTMLResponse("<html>"), "GET /schema answered 200; check that it is"),
        (JSONResponse([1]), "GET /schema answered 200; check that it is"),
        (JSONResponse({"action": []}), "GET /schema has no JSON schema"),
    ],
)
async def test_a_server_without_a_schema_is_no_openenv_server(answer: Response, says: str):
    async def schema(_: object) -> Response:
        return answer

    with (
        running(Starlette(routes=[Route("/schema", schema)])) as url,
        pytest.raises(WorldError, match=says) as caught,
    ):
        await connect(url, OpenEnvOptions(), timeout_s=TIMEOUT_S)
    assert not isinstance(caught.value, OptionError)
