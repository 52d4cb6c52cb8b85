"""Serves AgentGym's protocol, so that its own clients play our environments.

    create_app(tasks, executor, options, gateway=agentgym_gateway(tasks, "babyai"))

A session is an integer over a lease; `/create` allocates the integer only, the first `/reset` opens
the session. `data_idx` is the number of the data set where the task set knows it (`env.Numbered`),
else the index of a training task, and from `FIRST_HELDOUT` on that of a held-out task. Every answer
has status 200, as the clients require: an error is `{"error": ...}` in it. Steps are numbered here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agentrl_envs.env import Numbered, Observation, Step, Task, TaskSet
from agentrl_envs.errors import OptionError, SessionError, TaskError
from agentrl_envs.protocol import MAX_ACTION_CHARS
from agentrl_envs.protocols.agentgym_families import (
    FAMILIES,
    Family,
    action_line,
    last_action,
)
from agentrl_envs.server.app import Gateway
from agentrl_envs.server.error_responses import error_detail
from agentrl_envs.server.sessions import Sessions
from agentrl_envs.server.task_service import TaskService

FIRST_HELDOUT = 1_000_000
"""The `data_idx` of the first held-out task, where the data set has no numbers."""

MAX_GAMES = 100_000
"""Integers that are remembered. AgentGym's clients may leave without a close."""

MAX_BODY_BYTES = 1 << 20

FAMILY_OF = {"search": "searchqa", "web": "webarena"}
"""AgentGym's name of an environment, where it differs from ours."""


@dataclass(slots=True, eq=False)
class Game:
    """One integer: a session, once it is reset."""

    lease: str | None = None
    steps: int = 0
    resets: int = 0
    observation: str = ""
    score: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def family_of(task_set: TaskSet, name: str | None) -> Family:
    """The family whose answers are given: `name`, else AgentGym's name of the environment, else
    that of its first dialect. Raises `OptionError` for an unknown name."""
    found = name or FAMILY_OF.get(task_set.name, task_set.name)
    if found in FAMILIES:
        return FAMILIES[found]
    if name is not None:
        raise OptionError(f"family: there is no {name!r}; use one of {', '.join(FAMILIES)}")
    return FAMILIES["textcraft"]


def agentgym_gateway(task_set: TaskSet, family: str | None = None) -> Gateway:
    """The routes of AgentGym's protocol for `create_app`. Raises `OptionError` for an unknown
    family."""
    chosen = family_of(task_set, family)

    def routes(sessions: Sessions, tasks: TaskService) -> list[BaseRoute]:
        return AgentGymServer(task_set, chosen, sessions, tasks).routes()

    return routes


class AgentGymServer:
    """The routes of one family."""

    def __init__(
        self, task_set: TaskSet, family: Family, sessions: Sessions, tasks: TaskService
    ) -> None:
        self._task_set = task_set
        self._family = family
        self._sessions = sessions
        self._tasks = tasks
        # These families' clients send the action of a reply alone. An environment that asks for
        # ReAct replies would find none in it.
        self._restores_reply = (
            family.read in (action_line, last_action) and "Action:" in task_set.instructions()
        )
        self._games: dict[int, Game] = {}
        self._created = 0

    def routes(self) -> list[BaseRoute]:
        path = self._family.path
        return [
            Route("/", self._answered(self.greeting)),
            Route(f"{path}/create", self._answered(self.create), methods=["POST"]),
            Route(f"{path}/reset", self._answered(self.reset), methods=["POST"]),
            Route(f"{path}/step", self._answered(self.step), methods=["POST"]),
            Route(f"{path}/observation", self._answered(self.observation)),
            Route(f"{path}/close", self._answered(self.close), methods=["POST"]),
        ]

    async def greeting(self, request: Request) -> Any:
        return f"This is environment {self._family.greeting or self._family.name}."

    async def create(self, request: Request) -> Any:
        number, self._created = self._created, self._created + 1
        self._games[number] = Game()
        if len(self._games) > MAX_GAMES:
            oldest = next(iter(self._games))
            await self._end(self._games.pop(oldest))
        if self._family.key == "id":
            return {"id": number, "observation": "", "reward": 0, "score": 0, "done": False}
        return {"env_idx": number} if self._family.name == "webarena" else number

    async def reset(self, request: Request) -> Any:
        body = await _body(request)
        number, game = self._game(body.get(self._family.key))
        index = body.get(self._family.number)
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            raise TaskError(f"{self._family.number}: must be a number from 0 on")
        async with game.lock:
            task = await self._task(index)
            await self._end(game)
            game.resets += 1
            key = f"agentgym-{number}-{game.resets}"
            game.lease, observation = await self._sessions.open(task, key)
            game.steps, game.score, game.observation = 0, 0.0, observation.text
            return self._opening(number, observation)

    async def step(self, request: Request) -> Any:
        body = await _body(request)
        _, game = self._game(body.get(self._family.key))
        action = body.get("action")
        if not isinstance(action, str):
            raise TaskError("action: must be text")
        if self._restores_reply and "Action:" not in action:
            action = f"Action: {action}"
        async with game.lock:
            if game.lease is None:
                raise SessionError("the environment has no task; call reset first")
            step = await self._sessions.step(game.lease, game.steps + 1, action[:MAX_ACTION_CHARS])
            game.steps += 1
            game.score += step.reward
            game.observation = step.observation.text
            return self._taken(step, game.score)

    async def observation(self, request: Request) -> Any:
        given = request.query_params.get(self._family.key, "")
        _, game = self._game(int(given) if given.isascii() and given.isdecimal() else given)
        return game.observation

    async def close(self, request: Request) -> Any:
        number = (await _body(request)).get(self._family.key)
        game = self._games.pop(number, None) if isinstance(number, int) else None
        if game is not None:
            async with game.lock:
                await self._end(game)
        return game is not None

    def _opening(self, number: int, observation: Observation) -> Any:
        text, family = observation.text, self._family
        if family.name == "webarena":
            return {"observation": text, "sites": [], "object": ""}
        if family.key == "env_idx":
            return [text, None] if family.name == "webshop" else text
        # ScienceWorld's client joins the description and the first observation with a newline.
        head, _, rest = text.partition("\n") if len(family.opening or ()) > 1 else ("", "", text)
        return {
            "id": number,
            "task_description": head,
            "observation": rest,
            "available_actions": list(observation.admissible or ()),
            "reward": 0,
            "score": 0,
            "done": False,
            "deleted": False,
        }

    def _taken(self, step: Step, score: float) -> Any:
        ended = step.terminated or step.truncated
        text = step.observation.text
        value = step.raw_score if self._family.raw == "score" else score
        answer = {"observation": text, "reward": value, "score": value, "done": ended}
        if self._family.name == "webarena":  # its client plays on until `terminated`
            return answer | {"terminated": ended, "truncated": step.truncated, "info": {}}
        if self._family.key == "env_idx":
            return answer | {"state": text, "info": None}
        return answer | {"available_actions": list(step.observation.admissible or ())}

    def _game(self, number: object) -> tuple[int, Game]:
        if isinstance(number, int) and number in self._games:
            return number, self._games[number]
        raise SessionError(f"The id {number} is not valid.")

    async def _task(self, index: int) -> Task:
        if isinstance(self._task_set, Numbered):
            return await self._tasks.numbered(index)
        if index >= FIRST_HELDOUT:
            return (await self._tasks.tasks("heldout", index - FIRST_HELDOUT, 1))[0]
        return (await self._tasks.tasks("train", index, 1))[0]

    async def _end(self, game: Game) -> None:
        lease, game.lease = game.lease, None
        if lease is not None:
            await self._sessions.close(lease)

    def _answered(
        self, call: Callable[[Request], Awaitable[Any]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """The call as a route whose every answer has status 200."""

        async def route(request: Request) -> Response:
            answer = (await asyncio.gather(call(request), return_exceptions=True))[0]
            if isinstance(answer, asyncio.CancelledError | ClientDisconnect):
                raise answer
            if isinstance(answer, BaseException):
                return JSONResponse({"error": error_detail(answer).message})
            return JSONResponse(answer)

        return route


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object in a request. Raises `TaskError` if it is another thing or too long."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise TaskError(f"the body is longer than {MAX_BODY_BYTES} bytes")
    try:
        body = json.loads(bytes(content))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise TaskError("the body is not a JSON object")
    return body
