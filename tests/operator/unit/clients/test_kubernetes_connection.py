"""Credentials of requests to the API server, and what happens when they expire."""

from __future__ import annotations

import asyncio
from collections import Counter

import kopf
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from agentrl_envs.server.run import running
from agentrl_operator.clients.kubernetes_connection import KubernetesConnection, login
from agentrl_operator.errors import KubernetesError


class ApiServer:
    """Accepts the token "two" only. With `together` requests of each token it answers the first
    token one by one, each when the repetition of the one before has arrived, and the second token
    when all are there."""

    def __init__(self, together: int = 0) -> None:
        self.requests: list[tuple[str, str]] = []
        self._together = together
        self._arrived: Counter[str] = Counter()
        self._more = asyncio.Condition()

    async def serve(self, request):
        token = request.headers["authorization"].removeprefix("Bearer ")
        self.requests.append((request.method, token))
        async with self._more:
            before = self._arrived[token]
            self._arrived[token] += 1
            self._more.notify_all()
            if self._together:
                await self._more.wait_for(lambda: self._may_answer(token, before))
        if token != "two":
            return JSONResponse({"message": "token expired"}, status_code=401)
        return JSONResponse({"path": request.url.path})

    def _may_answer(self, token: str, before: int) -> bool:
        all_there = self._arrived["one"] == self._together
        if token == "two":
            return self._arrived["two"] == self._together
        return all_there and self._arrived["two"] >= before

    def app(self):
        return Starlette(routes=[Route("/{path:path}", self.serve, methods=["GET", "PATCH"])])


class Tokens:
    """Logs in with one token after the other; the last one stays."""

    def __init__(self, url: str, *tokens: str) -> None:
        self.url, self.tokens, self.logins = url, tokens, 0

    def __call__(self) -> kopf.ConnectionInfo:
        token = self.tokens[min(self.logins, len(self.tokens) - 1)]
        self.logins += 1
        return kopf.ConnectionInfo(server=self.url, token=token)


def connection(tokens: Tokens) -> KubernetesConnection:
    return KubernetesConnection(tokens, None, connections=16, timeout_s=30.0)


@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_a_request_whose_token_has_expired_is_repeated_with_a_new_one(method):
    server = ApiServer()
    with running(server.app()) as url:
        tokens = Tokens(url, "one", "two")
        api = connection(tokens)
        assert await api.request(method, "api/v1/pods") == {"path": "/api/v1/pods"}
        assert await api.request("GET", "version") == {"path": "/version"}
        await api.close()
    assert server.requests == [(method, "one"), (method, "two"), ("GET", "two")]
    assert tokens.logins == 2


async def test_a_token_that_is_refused_again_is_an_error_that_may_be_retried():
    server = ApiServer()
    with running(server.app()) as url:
        api = connection(Tokens(url, "one"))
        with pytest.raises(KubernetesError, match="401: token expired") as caught:
            await api.request("GET", "api/v1/pods")
        await api.close()
    assert (caught.value.status, caught.value.retryable) == (401, True)
    assert server.requests == [("GET", "one")] * 2


async def test_requests_at_the_moment_at_which_a_token_expires_are_all_repeated():
    """Regression: each of them closed the connections on which the others were sent."""
    server = ApiServer(together=10)
    with running(server.app()) as url:
        tokens = Tokens(url, "one", "two")
        api = connection(tokens)
        methods = ["GET", "PATCH"] * 5
        answers = await asyncio.gather(
            *(api.request(method, f"a/{i}") for i, method in enumerate(methods))
        )
        await api.close()
    assert answers == [{"path": f"/a/{i}"} for i in range(10)]
    assert Counter(token for _, token in server.requests) == {"one": 10, "two": 10}
    assert tokens.logins == 2


async def test_a_closed_connection_opens_again_and_logs_in():
    with running(ApiServer().app()) as url:
        tokens = Tokens(url, "two")
        api = connection(tokens)
        for _ in range(2):
            await api.request("GET", "version")
            await api.close()
    assert tokens.logins == 2


def test_neither_a_service_account_nor_a_kubeconfig_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(KubernetesError, match="no service account and no kubeconfig") as caught:
        login()
    assert not caught.value.retryable
