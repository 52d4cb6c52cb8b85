"""Names that have no address yet."""

import asyncio
import socket

import pytest
from corridor_server import HURRIED, PATIENT, served
from pydantic import SecretStr

from agentrl_envs.client.http import ServerClient
from agentrl_envs.errors import UnreachableError
from agentrl_envs.protocol import EnvironmentResponse


class Names(asyncio.SelectorEventLoop):
    """A loop that knows one name more: `worlds.test`, once it has been asked for twice in vain."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def getaddrinfo(self, host, port, **options):
        if host not in ("worlds.test", b"worlds.test"):
            return await super().getaddrinfo(host, port, **options)
        self.asked += 1
        if self.asked <= 2:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return await super().getaddrinfo("127.0.0.1", port, **options)


def test_a_name_without_an_address_is_tried_again_and_looked_up_for_every_connection():
    async def asked(url: str) -> None:
        server = ServerClient(url, token="t", options=PATIENT)
        assert (await server.get("/v1/environment", EnvironmentResponse)).name == "corridor"
        await asyncio.gather(
            *(server.get("/v1/environment", EnvironmentResponse) for _ in range(3))
        )
        await server.close()

    with served(token=SecretStr("t")) as url, asyncio.Runner(loop_factory=Names) as runner:
        runner.run(asked(url.replace("127.0.0.1", "worlds.test")))
        assert runner.get_loop().asked == 5


def test_a_name_that_never_has_an_address_is_a_session_error():
    async def asked() -> None:
        server = ServerClient("http://worlds.test", token=None, options=HURRIED)
        with pytest.raises(UnreachableError, match=r"http://worlds\.test: .*not known"):
            await server.get("/v1/environment", EnvironmentResponse, retry=False)
        await server.close()

    with asyncio.Runner(loop_factory=Names) as runner:
        runner.run(asked())
