"""What clients do with the answers of a hostile server."""

import asyncio
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import httpx
import pytest
from http_server import serving

from agentrl_envs.client.http import ClientOptions, ServerClient
from agentrl_envs.environments.search.options import RetrieverOptions
from agentrl_envs.environments.search.retrieval.http import Service
from agentrl_envs.errors import ContractError, SessionError, WorldError
from agentrl_envs.http.answers import (
    MAX_ANSWER_BYTES,
    NOT_COMPRESSED,
    AnswerError,
    bound,
)
from agentrl_envs.http.received import parse_json, short
from agentrl_envs.protocol import EnvironmentResponse, RenewalRequest
from agentrl_envs.protocols.agentgym_json import JsonServer
from agentrl_envs.protocols.openenv_client import connect
from agentrl_envs.protocols.options import OpenEnvOptions

MIB = 1 << 20
DEEP = b"[" * 100_000
COMPRESSED = "the answer is compressed ('gzip'), which was not asked for"
LARGE = "the answer is larger than 16 MiB"


@contextmanager
def answering(body: bytes, *, mib: int = 0, encoding: str = "") -> Iterator[str]:
    """A server whose every answer is `body` and `mib` MiB of spaces, without a content length."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            if encoding:
                self.send_header("content-encoding", encoding)
            self.end_headers()
            try:
                self.wfile.write(body)
                for _ in range(mib):
                    self.wfile.write(b" " * MIB)
            except OSError:
                return  # the client has hung up, as it should

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    with serving(Handler) as url:
        yield url


def ours(url: str) -> None:
    async def call() -> None:
        server = ServerClient(url, token=None, options=ClientOptions(pools=1))
        try:
            await server.get("/v1/environment", EnvironmentResponse)
        finally:
            await server.close()

    asyncio.run(call())


def agentgym(url: str) -> None:
    async def call() -> None:
        server = JsonServer(url, 60.0)
        try:
            await server.post("/step", {})
        finally:
            await server.close()

    asyncio.run(call())


def openenv(url: str) -> None:
    asyncio.run(connect(url, OpenEnvOptions(train="0-9", heldout="10-19"), timeout_s=60.0))


def retriever(url: str) -> None:
    Service(RetrieverOptions(kind="search-r1", url=url, attempts=1), "").get(url)


CLIENTS = [
    pytest.param(ours, ContractError, id="ours"),
    pytest.param(agentgym, ContractError, id="agentgym"),
    pytest.param(openenv, WorldError, id="openenv"),
    pytest.param(retriever, SessionError, id="retriever"),
]


@pytest.mark.parametrize(("client", "raised"), CLIENTS)
def test_a_compressed_answer_is_not_unpacked(client, raised):
    """Regression: an answer of 1 MB could unpack to 1 GB in the memory of the trainer."""
    packed = gzip.compress(b" " * MIB)
    with (
        answering(packed, encoding="gzip") as url,
        pytest.raises(raised, match="answer is compressed") as raised_error,
    ):
        client(url)
    assert COMPRESSED in str(raised_error.value)


@pytest.mark.parametrize(("client", "raised"), CLIENTS)
def test_an_answer_is_not_read_beyond_16_mib(client, raised):
    """Regression: answers of any size were read whole."""
    with answering(b"", mib=17) as url, pytest.raises(raised, match=LARGE):
        client(url)


@pytest.mark.parametrize(("client", "raised"), CLIENTS)
def test_brackets_without_end_are_no_json(client, raised):
    """Regression: clients of AgentGym, OpenEnv and search services raised `RecursionError`."""
    with answering(DEEP) as url, pytest.raises(raised):
        client(url)


@pytest.mark.parametrize("newline", [b"", b"\n"])
def test_a_stream_of_lines_is_not_read_beyond_64_mib(newline):
    async def call(url: str) -> None:
        server = ServerClient(url, token=None, options=ClientOptions(pools=1))
        try:
            async with server.lines("/v1/steps", RenewalRequest(sessions=("a",))) as lines:
                async for _ in lines:
                    pass
        finally:
            await server.close()

    with (
        answering(newline, mib=65) as url,
        pytest.raises(SessionError, match="the answer is larger than 64 MiB"),
    ):
        asyncio.run(call(url))


@pytest.mark.parametrize(("mib", "read"), [(16, True), (17, False)])
def test_an_answer_of_exactly_the_limit_is_read(mib, read):
    with (
        answering(b"", mib=mib) as url,
        httpx.Client(headers=NOT_COMPRESSED, event_hooks={"response": [bound]}) as client,
    ):
        if read:
            assert len(client.get(url).content) == MAX_ANSWER_BYTES
        else:
            with pytest.raises(AnswerError):
                client.get(url)


def test_json_that_is_nested_too_deeply_is_a_value_error():
    assert parse_json('{"a": [1]}') == {"a": [1]}
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)


def test_a_received_value_is_shown_in_200_characters():
    assert short("a" * 300) == "'" + "a" * 199 + "…"
