"""Serves OpenEnv's protocol (openenv-core 0.3), so that its clients play our environments.

    create_app(tasks, executor, options, gateway=openenv_gateway(tasks))

A connection to `/ws` is a session over a lease. An action is `{"message": text}`, the agent's whole
reply. The seed of a reset is the index of a training task, and from `FIRST_HELDOUT` on that of a
held-out task; without one the next training task is played. Has no HTTP `/reset` and `/step`: in
OpenEnv these make a new environment on every call.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from agentrl_envs.env import Observation, Task, TaskSet
from agentrl_envs.errors import CapacityError, TaskError
from agentrl_envs.protocol import MAX_ACTION_CHARS
from agentrl_envs.protocols.agentgym_server import FIRST_HELDOUT
from agentrl_envs.server.app import Gateway
from agentrl_envs.server.error_responses import error_detail
from agentrl_envs.server.sessions import Sessions
from agentrl_envs.server.task_service import TaskService

MAX_SEED = 1 << 53

METADATA = {"type": "object", "additionalProperties": True}
SCHEMA = {
    "action": {
        "title": "Reply",
        "type": "object",
        "properties": {"message": {"type": "string"}, "metadata": METADATA},
        "required": ["message"],
    },
    "observation": {
        "title": "Observation",
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "admissible": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "done": {"type": "boolean"},
            "reward": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "metadata": METADATA,
        },
        "required": ["text"],
    },
    "state": {
        "title": "State",
        "type": "object",
        "properties": {"episode_id": {"type": "string"}, "step_count": {"type": "integer"}},
    },
}


def openenv_gateway(task_set: TaskSet) -> Gateway:
    """The routes of OpenEnv's protocol for `create_app`."""

    def routes(sessions: Sessions, tasks: TaskService) -> list[BaseRoute]:
        async def schema(request: Request) -> Response:
            return JSONResponse(SCHEMA)

        async def health(request: Request) -> Response:
            return JSONResponse({"status": "healthy"})

        async def metadata(request: Request) -> Response:
            described = {"name": task_set.name, "description": task_set.instructions()}
            return JSONResponse(described)

        upcoming = iter(range(MAX_SEED))

        async def play(socket: WebSocket) -> None:
            await socket.accept()
            connection = _Connection(sessions, tasks, lambda: next(upcoming))
            try:
                while (answer := await connection.answer(await socket.receive_text())) is not None:
                    await socket.send_text(json.dumps(answer))
                await socket.close()
            except WebSocketDisconnect:
                return
            finally:
                await connection.end()

        return [
            Route("/schema", schema),
            Route("/health", health),
            Route("/metadata", metadata),
            WebSocketRoute("/ws", play),
        ]

    return routes


class _Connection:
    """The session of one WebSocket."""

    def __init__(self, sessions: Sessions, tasks: TaskService, upcoming: Any) -> None:
        self._sessions = sessions
        self._tasks = tasks
        self._upcoming = upcoming
        self._lease: str | None = None
        self._episode = ""
        self._steps = 0

    async def answer(self, message: str) -> dict[str, Any] | None:
        """The answer to a message; None: the client closes."""
        try:
            read = json.loads(message)
        except (ValueError, RecursionError):
            return _error("INVALID_JSON", "the message is not JSON")
        kind = read.get("type") if isinstance(read, dict) else None
        data = read.get("data", {}) if isinstance(read, dict) else {}
        if not isinstance(data, dict):
            return _error("VALIDATION_ERROR", "data must be an object")
        match kind:
            case "reset":
                call = self._reset(data)
            case "step":
                call = self._step(data)
            case "state":
                state = {"episode_id": self._episode, "step_count": self._steps}
                return {"type": "state", "data": state}
            case "close":
                return None
            case _:
                return _error("UNKNOWN_TYPE", f"there is no message type {kind!r}")
        outcome = (await asyncio.gather(call, return_exceptions=True))[0]
        if isinstance(outcome, asyncio.CancelledError):
            raise outcome
        if isinstance(outcome, BaseException):
            return _error(_code(outcome), error_detail(outcome).message)
        return {"type": "observation", "data": outcome}

    async def end(self) -> None:
        """Close the session."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._sessions.close(lease)

    async def _reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        task = await self._task(data.get("seed"))
        await self.end()
        self._lease, observation = await self._sessions.open(task, uuid.uuid4().hex)
        self._episode, self._steps = str(data.get("episode_id") or task.id), 0
        about = {"task": task.id, "category": task.category}
        return {"observation": _seen(observation) | about, "reward": None, "done": False}

    async def _step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        message = data.get("message")
        if not isinstance(message, str):
            raise TaskError("message: must be text")
        if self._lease is None:
            raise TaskError("step: call reset first")
        step = await self._sessions.step(self._lease, self._steps + 1, message[:MAX_ACTION_CHARS])
        self._steps += 1
        more = {
            "success": step.success,
            "wellformed": step.wellformed,
            "truncated": step.truncated,
        }
        return {
            "observation": _seen(step.observation) | more,
            "reward": step.reward,
            "done": step.terminated or step.truncated,
        }

    async def _task(self, seed: object) -> Task:
        index = self._upcoming() if seed is None else seed
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < MAX_SEED:
            raise TaskError("seed: must be a number from 0 on")
        if index >= FIRST_HELDOUT:
            return (await self._tasks.tasks("heldout", index - FIRST_HELDOUT, 1))[0]
        return (await self._tasks.tasks("train", index, 1))[0]


def _seen(observation: Observation) -> dict[str, Any]:
    admissible = observation.admissible
    return {
        "text": observation.text,
        "admissible": None if admissible is None else list(admissible),
    }


def _code(error: BaseException) -> str:
    if isinstance(error, CapacityError):
        return "CAPACITY_REACHED"
    return "VALIDATION_ERROR" if isinstance(error, TaskError) else "EXECUTION_ERROR"


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message}}
