"""Server names that cannot be resolved yet."""

import asyncio
import socket

import pytest
from corridor_server import HURRIED, PATIENT, served
from pydantic import SecretStr

from agentrl_envs.client.http import ServerClient
from agentrl_envs.errors import UnreachableError
from agentrl_envs.protocol import EnvironmentResponse


class LateNameLoop(asyncio.SelectorEventLoop):
    """An event loop that resolves `worlds.test` from the third lookup on."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups = 0

    async def getaddrinfo(self, host, port, **options):
        if host not in ("worlds.test", b"worlds.test"):
            return await super().getaddrinfo(host, port, **options)
        self.lookups += 1
        if self.lookups <= 2:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await super().getaddrinfo("127.0.0.1", port, **options)


def test_failed_name_lookup_is_retried_and_every_connection_resolves_the_name():
    async def request(url: str) -> None:
        server = ServerClient(url, token="t", options=PATIENT)
        assert (await server.get("/v1/environment", EnvironmentResponse)).name == "corridor"
        await asyncio.gather(
            *(server.get("/v1/environment", EnvironmentResponse) for _ in range(3))
        )
        await server.close()

    with served(token=SecretStr("t")) as url, asyncio.Runner(loop_factory=LateNameLoop) as runner:
        runner.run(request(url.replace("127.0.0.1", "worlds.test")))
        assert runner.get_loop().lookups == 5


def test_unresolvable_name_raises_unreachable_error():
    async def request() -> None:
        server = ServerClient("http://worlds.test", token=None, options=HURRIED)
        with pytest.raises(UnreachableError, match=r"http://worlds\.test: .*not known"):
            await server.get("/v1/environment", EnvironmentResponse, retry=False)
        await server.close()

    with asyncio.Runner(loop_factory=LateNameLoop) as runner:
        runner.run(request())


async def test_servers_are_called_by_their_addresses_without_a_proxy(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with served(token=SecretStr("t")) as url:
        server = ServerClient(url, token="t", options=HURRIED)
        assert (await server.get("/v1/environment", EnvironmentResponse)).name == "corridor"
        await server.close()
