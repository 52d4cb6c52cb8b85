"""The environment server: any `TaskSet` over HTTP, as `wire` describes it.

    app = create_app(tasks, ThreadHost(tasks), ServerOptions())

`/healthz` says that the process answers, `/readyz` that it can serve tasks, `/metrics` is for
Prometheus; these three need no token. Everything else needs `Authorization: Bearer <token>` when a
token is set. Without one, only requests for a loopback name are answered, so that no page in a
person's browser can reach the server under a name of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from agentrl_envs import protocol
from agentrl_envs.env import Split, Step, TaskSet
from agentrl_envs.server.auth import BearerToken
from agentrl_envs.server.error_responses import HANDLERS, RefusedError, detail, refused_by
from agentrl_envs.server.executors import Host
from agentrl_envs.server.leases import Clock
from agentrl_envs.server.metrics import CONTENT_TYPE, Metrics
from agentrl_envs.server.sessions import Sessions
from agentrl_envs.server.task_service import Shelf

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_TASKS = 1000
"""Tasks in one answer."""
TOGETHER_S = 0.005
"""Seconds that a known outcome waits for others, so that they travel together."""
BYTES_TOGETHER = 1 << 20
"""Bytes of a request of many that any server takes: see `protocol.MAX_BATCH_CHARS`."""
LINES = "application/x-ndjson"

M = TypeVar("M", bound=BaseModel)


class ServerOptions(BaseModel):
    """How a server behaves; where it listens is `serving`'s affair."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    capacity: int = Field(default=256, ge=1, le=100_000)
    """Sessions open at once; more are refused with 429."""
    ttl_s: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds without a call after which a session is given away."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that one reset or step may take before the session is lost."""
    most_bytes: int = Field(default=1 << 20, ge=1024)
    """Bytes of one request's body."""
    token: SecretStr | None = None
    """The bearer token. None: no token is asked for."""


class EnvironmentServer:
    """The routes."""

    def __init__(
        self, task_set: TaskSet, host: Host, options: ServerOptions, clock: Clock | None
    ) -> None:
        self._options = options
        self._shelf = Shelf(task_set)
        self._stepping: set[asyncio.Task[Step]] = set()
        self._metrics = Metrics(environment=task_set.name, capacity=options.capacity)
        self._sessions = Sessions(
            host,
            self._metrics,
            capacity=options.capacity,
            ttl_s=options.ttl_s,
            timeout_s=options.timeout_s,
            **({} if clock is None else {"clock": clock}),
        )

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/v1/environment", self.environment),
            Route("/v1/tasks/{split}", self.tasks),
            Route("/v1/sessions", self.open, methods=["POST"]),
            Route("/v1/sessions/{session}/steps", self.step, methods=["POST"]),
            Route("/v1/steps", self.steps, methods=["POST"]),
            Route("/v1/relabel", self.relabel, methods=["POST"]),
            Route("/v1/sessions/{session}", self.close, methods=["DELETE"]),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Look the tasks over, reap while serving, and close every environment at the end."""
        looking = asyncio.create_task(self._shelf.look())
        reaping = asyncio.create_task(self._reap())
        try:
            yield
        finally:
            ending = (looking, reaping, *self._stepping)
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await self._sessions.shut()
            self._shelf.close()

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(self, request: Request) -> Response:
        if not self._shelf.ready:
            return PlainTextResponse("the tasks are not ready yet", status_code=503)
        return PlainTextResponse("ok")

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    async def environment(self, request: Request) -> Response:
        return _json(
            await self._shelf.answer(
                capacity=self._options.capacity,
                ttl_s=self._options.ttl_s,
                version=version("agentrl"),
            )
        )

    async def tasks(self, request: Request) -> Response:
        split = _split(request)
        start = _number(request, "start", default=0, most=1 << 53)
        count = _number(request, "count", default=1, most=MOST_TASKS)
        return _json(protocol.TasksResponse(tasks=await self._shelf.tasks(split, start, count)))

    async def open(self, request: Request) -> Response:
        asked = await self._body(request, protocol.OpenRequest)
        session, observation = await self._sessions.open(asked.task, asked.key, asked.replaces)
        return _json(
            protocol.OpenResponse(id=session, ttl_s=self._options.ttl_s, observation=observation),
            201,
        )

    async def step(self, request: Request) -> Response:
        asked = await self._body(request, protocol.StepRequest)
        step = await self._sessions.step(request.path_params["session"], asked.n, asked.action)
        return _json(protocol.StepResponse(step=step))

    async def steps(self, request: Request) -> Response:
        asked = await self._body(request, protocol.StepsRequest, least=BYTES_TOGETHER)
        return StreamingResponse(self._outcomes(asked.steps), media_type=LINES)

    async def relabel(self, request: Request) -> Response:
        asked = await self._body(request, protocol.RelabelRequest, least=BYTES_TOGETHER)
        return _json(protocol.RelabelResponse(texts=await self._shelf.relabel(asked.openings)))

    async def close(self, request: Request) -> Response:
        await self._sessions.close(request.path_params["session"])
        return Response(status_code=204)

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(self._options.ttl_s / 4, 5.0))
            await self._sessions.reap()

    async def _outcomes(self, asked: tuple[protocol.SessionStep, ...]) -> AsyncIterator[bytes]:
        """A line for each step, when it is known; those that are known together, together. A slow
        environment holds up nobody but itself."""
        index = {self._begun(each): number for number, each in enumerate(asked)}
        pending = set(index)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                soon, pending = await asyncio.wait(pending, timeout=TOGETHER_S)
                done |= soon
            yield b"".join(_line(index[task], task) for task in done)

    def _begun(self, asked: protocol.SessionStep) -> asyncio.Task[Step]:
        """The step, which goes on when the client is gone: it may come back and ask again."""
        task = asyncio.create_task(self._sessions.step(asked.session, asked.n, asked.action))
        self._stepping.add(task)
        task.add_done_callback(self._stepped)
        return task

    def _stepped(self, task: asyncio.Task[Step]) -> None:
        self._stepping.discard(task)
        if not task.cancelled():
            task.exception()  # now it is seen, if nobody waits for it any more

    async def _body(self, request: Request, model: type[M], *, least: int = 0) -> M:
        """The request's body, as the model it must be; `least` bytes are taken of any."""
        most_bytes = max(self._options.most_bytes, least)
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise RefusedError(415, "invalid", "send the body as application/json", "content-type")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > most_bytes:
                most = f"the body is longer than {most_bytes} bytes"
                raise RefusedError(413, "invalid", most)
        try:
            return model.model_validate_json(bytes(body))
        except ValidationError as error:
            raise refused_by(error) from None


def create_app(
    task_set: TaskSet, host: Host, options: ServerOptions, *, clock: Clock | None = None
) -> Starlette:
    """The ASGI application. It owns `host`, and closes it when it shuts down.

    `clock` gives the seconds that leases count by; None: the machine's monotonic clock."""
    server = EnvironmentServer(task_set, host, options, clock)
    if options.token is None:
        guard = Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK))
    else:
        guard = Middleware(BearerToken, token=options.token.get_secret_value())
    return Starlette(
        routes=server.routes(),
        middleware=[guard],
        exception_handlers=HANDLERS,
        lifespan=server.lifespan,
    )


def _json(answer: BaseModel, status: int = 200) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


def _line(index: int, task: asyncio.Task[Step]) -> bytes:
    failure = task.exception()
    outcome = (
        protocol.StepOutcome(index=index, step=task.result())
        if failure is None
        else protocol.StepOutcome(index=index, error=detail(failure))
    )
    return outcome.model_dump_json().encode() + b"\n"


def _split(request: Request) -> Split:
    given = request.path_params["split"]
    if given == "train":
        return "train"
    if given == "heldout":
        return "heldout"
    raise RefusedError(404, "not_found", f"there is no split {given!r}; use train or heldout")


def _number(request: Request, name: str, *, default: int, most: int) -> int:
    given = request.query_params.get(name, str(default))
    if not (given.isascii() and given.isdecimal() and int(given) <= most):
        raise RefusedError(400, "invalid", f"{name} must be a number from 0 to {most}", name)
    return int(given)
