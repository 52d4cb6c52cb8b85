"""AgentGym's protocol in both directions: our server, and a scripted one with AgentGym's habits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.env import TaskSet
from agentrl_envs.protocols.agentgym_server import agentgym_gateway
from agentrl_envs.protocols.connect import opener
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


@contextmanager
def served(tasks: TaskSet, family: str | None = None, **options: Any) -> Iterator[str]:
    """Our server of AgentGym's protocol; yields its URL."""
    gateway = agentgym_gateway(tasks, family)
    executor = ThreadExecutor(tasks)
    with running(create_app(tasks, executor, ServerOptions(**options), gateway=gateway)) as url:
        yield url


def client(url: str, **options: str) -> BlockingTaskSet:
    """Our client of AgentGym's protocol."""
    return BlockingTaskSet(opener("agentgym", url, options))


Script = dict[str, Callable[[dict[str, Any]], Any]]


@contextmanager
def scripted(greeting: str, script: Script) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A server that answers each path as the script says; yields its URL and the calls it got.

    An answer is JSON with status 200, or a `Response`."""
    calls: list[tuple[str, Any]] = []

    async def answer(request: Request) -> Response:
        path = request.url.path
        content = await request.body()
        body = await request.json() if content else dict(request.query_params)
        calls.append((path, body))
        assert "authorization" not in request.headers
        if path == "/":
            return PlainTextResponse(greeting)
        given = script[path](body)
        return given if isinstance(given, Response) else JSONResponse(given)

    app = Starlette(
        routes=[Route(path, answer, methods=["GET", "POST"]) for path in ("/", *script)]
    )
    with running(app) as url:
        yield url, calls
