"""HTTP application that serves any `TaskSet`, as `protocol` specifies.

    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())

`/healthz` reports that the process is alive, `/readyz` that it can serve tasks, `/metrics` is the
Prometheus endpoint; these three require no token. Every other route requires
`Authorization: Bearer <token>` if a token is configured. Without a token only requests whose Host
is a loopback name are answered, which prevents DNS rebinding from a browser.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from agentrl_envs import protocol
from agentrl_envs.env import Step, TaskSet
from agentrl_envs.server.auth import BearerToken
from agentrl_envs.server.draining import Draining
from agentrl_envs.server.error_responses import (
    CLIENT_CLOSED_REQUEST,
    HANDLERS,
    error_detail,
)
from agentrl_envs.server.execution.executor import Executor
from agentrl_envs.server.execution.programs import Programs
from agentrl_envs.server.leases import Clock
from agentrl_envs.server.metrics import CONTENT_TYPE, Metrics
from agentrl_envs.server.request_reading import (
    M,
    completes_before_disconnect,
    limit_of,
    query_number,
    read_body,
    split_of,
)
from agentrl_envs.server.sessions import Sessions
from agentrl_envs.server.task_service import TaskService

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")
MAX_TASKS = 1000
"""Tasks in one response."""
LINE_BATCH_S = 0.005
"""Seconds that a finished outcome waits for others, to be sent in one chunk."""
MIN_BATCH_BYTES = 1 << 20
"""Body size that the batch routes accept whatever the options say: see
`protocol.MAX_BATCH_CHARS`."""
NDJSON = "application/x-ndjson"

Gateway = Callable[[Sessions, TaskService], list[BaseRoute]]
"""Makes the routes of another protocol, which plays the same sessions."""


class ServerOptions(BaseModel):
    """Behaviour of a server. The address it listens on is set in `run`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    capacity: int = Field(default=protocol.DEFAULT_CAPACITY, ge=1, le=100_000)
    """Maximum number of concurrent sessions; more are rejected with 429."""
    ttl_s: float = Field(default=300.0, gt=0, le=86_400)
    """Seconds without a call or a renewal after which a session expires."""
    timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds that one reset or step may take before its session is lost, and that finding tasks
    may take. A client that gives up sooner says so: see `protocol.TIMEOUT_HEADER`."""
    body_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """Seconds within which the body of a request must arrive."""
    drain_s: float = Field(default=0.0, ge=0, le=86_400)
    """Seconds that live sessions are given to end when the server is asked to stop."""
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    """Maximum size of a request body."""
    token: SecretStr | None = None
    """Bearer token. None: no authentication."""


class EnvironmentServer:
    """The routes of one server."""

    def __init__(
        self, task_set: TaskSet, executor: Executor, options: ServerOptions, clock: Clock | None
    ) -> None:
        self._options = options
        self._executor = executor
        self._task_service = TaskService(task_set, timeout_s=options.timeout_s)
        self._programs = Programs(task_set, executor)
        self._running_steps: set[asyncio.Task[Step]] = set()
        self._metrics = Metrics(environment=task_set.name, capacity=options.capacity)
        self._sessions = Sessions(
            executor,
            self._metrics,
            capacity=options.capacity,
            ttl_s=options.ttl_s,
            timeout_s=options.timeout_s,
            drain_s=options.drain_s,
            **({} if clock is None else {"clock": clock}),
        )

    @property
    def draining(self) -> Draining:
        """Whether the server was asked to stop."""
        return self._sessions.draining

    def routes(self, gateway: Gateway | None = None) -> list[BaseRoute]:
        """The routes of `protocol`, and those of the gateway."""
        others = [] if gateway is None else gateway(self._sessions, self._task_service)
        return [
            *others,
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/v1/environment", self.environment),
            Route("/v1/tasks/{split}", self.tasks),
            Route("/v1/sessions", self.open, methods=["POST"]),
            Route("/v1/sessions/{session}/steps", self.step, methods=["POST"]),
            Route("/v1/steps", self.steps, methods=["POST"]),
            Route("/v1/relabel", self.relabel, methods=["POST"]),
            Route("/v1/renewals", self.renew, methods=["POST"]),
            Route("/v1/sessions/{session}", self.close, methods=["DELETE"]),
        ]

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Start the programs, deal the first tasks, close expired sessions while serving, and close
        every environment on shutdown."""
        starting = asyncio.create_task(self._programs.start())
        preparing = asyncio.create_task(self._task_service.start())
        expiring = asyncio.create_task(self._close_expired_sessions())
        try:
            yield
        finally:
            background = (starting, preparing, expiring, *self._running_steps)
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            await self._sessions.close_all()
            self._task_service.close()

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(self, request: Request) -> Response:
        problem = self._programs.problem or self._task_service.problem or self._executor.problem
        if self.draining.begun:
            problem = "draining: the server is stopping and opens no sessions"
        if problem is not None:
            return PlainTextResponse(problem, status_code=503)
        return PlainTextResponse("ok")

    async def metrics(self, request: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    async def environment(self, request: Request) -> Response:
        # Clients use a server from the moment that this is answered.
        self.draining.check()
        await self._programs.check()
        return _json_response(
            await self._task_service.description(
                capacity=self._options.capacity,
                ttl_s=self._options.ttl_s,
                version=version("agentrl"),
            )
        )

    async def tasks(self, request: Request) -> Response:
        split = split_of(request)
        start = query_number(request, "start", default=0, maximum=1 << 53)
        count = query_number(request, "count", default=1, maximum=MAX_TASKS)
        limit_s = limit_of(request)
        finding = asyncio.create_task(
            self._task_service.tasks(split, start, count, limit_s=limit_s)
        )
        if not await completes_before_disconnect(finding, request):
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return _json_response(protocol.TasksResponse(tasks=finding.result()))

    async def open(self, request: Request) -> Response:
        body = await self._body(request, protocol.OpenRequest)
        session, observation = await self._sessions.open(
            body.task, body.key, body.replaces, limit_s=limit_of(request)
        )
        response = protocol.OpenResponse(
            id=session, ttl_s=self._options.ttl_s, observation=observation
        )
        return _json_response(response, 201)

    async def step(self, request: Request) -> Response:
        body = await self._body(request, protocol.StepRequest)
        session = request.path_params["session"]
        step = await self._sessions.step(session, body.n, body.action, limit_s=limit_of(request))
        return _json_response(protocol.StepResponse(step=step))

    async def steps(self, request: Request) -> Response:
        body = await self._body(request, protocol.StepsRequest, min_limit=MIN_BATCH_BYTES)
        lines = self._outcome_lines(body.steps, limit_of(request))
        return StreamingResponse(lines, media_type=NDJSON)

    async def relabel(self, request: Request) -> Response:
        body = await self._body(request, protocol.RelabelRequest, min_limit=MIN_BATCH_BYTES)
        texts = await self._task_service.relabel(body.openings, limit_s=limit_of(request))
        return _json_response(protocol.RelabelResponse(texts=texts))

    async def renew(self, request: Request) -> Response:
        body = await self._body(request, protocol.RenewalRequest, min_limit=MIN_BATCH_BYTES)
        return _json_response(protocol.RenewalResponse(open=self._sessions.renew(body.sessions)))

    async def close(self, request: Request) -> Response:
        await self._sessions.close(request.path_params["session"])
        return Response(status_code=204)

    async def _body(self, request: Request, model: type[M], *, min_limit: int = 0) -> M:
        """The request body as `model`; its limit is at least `min_limit` bytes."""
        return await read_body(
            request,
            model,
            limit=max(self._options.max_body_bytes, min_limit),
            timeout_s=self._options.body_timeout_s,
        )

    async def _close_expired_sessions(self) -> None:
        while True:
            await asyncio.sleep(min(self._options.ttl_s / 4, 5.0))
            await self._sessions.close_expired()

    async def _outcome_lines(
        self, requested: tuple[protocol.SessionStep, ...], limit_s: float
    ) -> AsyncIterator[bytes]:
        """One line for each step as soon as it is done, so that a slow environment delays no other
        session. Steps that finish within `LINE_BATCH_S` share a chunk."""
        index = {self._start_step(each, limit_s): number for number, each in enumerate(requested)}
        pending = set(index)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                soon, pending = await asyncio.wait(pending, timeout=LINE_BATCH_S)
                done |= soon
            yield b"".join(_outcome_line(index[task], task) for task in done)

    def _start_step(self, requested: protocol.SessionStep, limit_s: float) -> asyncio.Task[Step]:
        """Run the step as a task that survives a disconnect: the client may reconnect and repeat
        the request."""
        task = asyncio.create_task(
            self._sessions.step(requested.session, requested.n, requested.action, limit_s=limit_s)
        )
        self._running_steps.add(task)
        task.add_done_callback(self._forget_step)
        return task

    def _forget_step(self, task: asyncio.Task[Step]) -> None:
        self._running_steps.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved, in case the client has disconnected


def create_app(
    task_set: TaskSet,
    executor: Executor,
    options: ServerOptions,
    *,
    clock: Clock | None = None,
    gateway: Gateway | None = None,
) -> Starlette:
    """The ASGI application. It owns `executor` and closes it on shutdown.

    `clock` gives the time in seconds by which leases expire; None: the monotonic clock. `gateway`
    serves another protocol beside ours."""
    server = EnvironmentServer(task_set, executor, options, clock)
    if options.token is None:
        guard = Middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_HOSTS))
    else:
        guard = Middleware(
            BearerToken,
            token=options.token.get_secret_value(),
            as_password=gateway is not None,
        )
    app = Starlette(
        routes=server.routes(gateway),
        middleware=[guard],
        exception_handlers=HANDLERS,
        lifespan=server.lifespan,
    )
    app.state.draining = server.draining
    return app


def _json_response(message: BaseModel, status: int = 200) -> Response:
    return Response(message.model_dump_json(), status, media_type="application/json")


def _outcome_line(index: int, task: asyncio.Task[Step]) -> bytes:
    failure = task.exception()
    outcome = (
        protocol.StepOutcome(index=index, step=task.result())
        if failure is None
        else protocol.StepOutcome(index=index, error=error_detail(failure))
    )
    return outcome.model_dump_json().encode() + b"\n"
