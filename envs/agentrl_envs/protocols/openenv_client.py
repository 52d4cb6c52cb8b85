"""Client of OpenEnv's servers (openenv-core 0.3), over their WebSocket.

    world = await connect("http://127.0.0.1:8000", OpenEnvOptions(train="0-99", heldout="100-119"),
                          timeout_s=60)

Only the WebSocket has sessions, one a connection: OpenEnv's HTTP routes make and drop an
environment on every call. Tasks are seeds. The text fields of action and observation differ by
environment; `GET /schema` tells them where there is only one. OpenEnv does not say whether an
episode was solved or cut: a success is an end with a score of 1.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidURI,
    WebSocketException,
)

from agentrl_envs.calls.answer_check import score_of
from agentrl_envs.env import Observation
from agentrl_envs.errors import (
    CapacityError,
    ContractError,
    OptionError,
    SessionError,
    UnreachableError,
    WorldError,
)
from agentrl_envs.http.answers import NOT_COMPRESSED, AnswerError, bound_async
from agentrl_envs.http.proxies import is_address, mounts
from agentrl_envs.http.received import parse_json, short
from agentrl_envs.protocols.foreign_world import Answer, ForeignWorld
from agentrl_envs.protocols.numbered_tasks import NumberedTasks, parse_ranges
from agentrl_envs.protocols.options import OpenEnvOptions

MAX_MESSAGE_BYTES = 16 << 20
OPEN_TIMEOUT_S = 10.0
BASE_FIELDS = frozenset({"metadata", "done", "reward"})
"""Fields that every action or observation of OpenEnv has."""


async def connect(url: str, options: OpenEnvOptions, *, timeout_s: float) -> ForeignWorld:
    """The world of the server at `url`. Sends no token.

    Raises `OptionError` where the schema does not tell a text field, `UnreachableError` if nothing
    answers, `WorldError` if it is another kind of server."""
    schema = await _schema(url.rstrip("/"), timeout_s)
    action = text_field(schema.get("action"), options.action_field, "actionField")
    observation = text_field(
        schema.get("observation"), options.observation_field, "observationField"
    )
    tasks = NumberedTasks(
        "openenv",
        {
            "train": parse_ranges("train", options.train),
            "heldout": parse_ranges("heldout", options.heldout),
        },
    )

    def session() -> OpenEnvConnection:
        return OpenEnvConnection(url, action, observation, options, timeout_s)

    async def close() -> None:
        """Nothing is shared between sessions."""

    return ForeignWorld(tasks, options.instructions, session, close)


def text_field(schema: object, given: str | None, option: str) -> str:
    """The field of a JSON schema that holds the text: `given`, else its only text field. Raises
    `OptionError` if there are several or none, or `given` is not among the fields."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        raise WorldError("url: GET /schema has no JSON schema; check that it is an OpenEnv server")
    fields = {name: one for name, one in properties.items() if name not in BASE_FIELDS}
    if given is not None:
        if given not in fields:
            raise OptionError(f"{option}: there is no {given}; use one of {', '.join(fields)}")
        return given
    texts = [
        str(name)
        for name, one in fields.items()
        if isinstance(one, Mapping) and one.get("type") == "string"
    ]
    if len(texts) != 1:
        raise OptionError(
            f"{option}: the schema has {len(texts)} text fields; set it to one of "
            f"{', '.join(fields) or 'none'}"
        )
    return texts[0]


async def _schema(url: str, timeout_s: float) -> Mapping[str, Any]:
    try:
        async with httpx.AsyncClient(
            headers=NOT_COMPRESSED,
            event_hooks={"response": [bound_async]},
            timeout=timeout_s,
            mounts=mounts(url),
        ) as client:
            answer = await client.get(f"{url}/schema")
    except httpx.InvalidURL as error:
        raise WorldError(f"url: {url!r} is not a URL ({error})") from None
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise UnreachableError(
            f"{url}: GET /schema got no answer ({reason}); check that it is running"
        ) from None
    except AnswerError as error:
        raise WorldError(f"{url}: GET /schema: {error}; check the URL") from None
    try:
        schema = parse_json(answer.content) if answer.status_code == 200 else None
    except ValueError:
        schema = None
    if not isinstance(schema, dict):
        raise WorldError(
            f"{url}: GET /schema answered {answer.status_code}; check that it is an OpenEnv server"
        )
    return schema


class OpenEnvConnection:
    """One session: a WebSocket."""

    def __init__(
        self, url: str, action: str, observation: str, options: OpenEnvOptions, timeout_s: float
    ) -> None:
        self._url = url.rstrip("/")
        self._action = action
        self._observation = observation
        self._options = options
        self._timeout_s = timeout_s
        self._socket: ClientConnection | None = None
        self._total = 0.0

    async def reset(self, number: int) -> Observation:
        self._total = 0.0
        data = await self._call({"type": "reset", "data": {"seed": number}}, reopen=True)
        return Observation(text=self._text(data))

    async def step(self, text: str) -> Answer:
        data = await self._call({"type": "step", "data": {self._action: text}})
        reward, done = data.get("reward"), data.get("done")
        if not isinstance(done, bool) or not isinstance(reward, int | float | None):
            raise ContractError(
                f"{self._url}: a step has done {done!r} and reward {short(reward)}; they "
                "must be a boolean and a number or null"
            )
        self._total += float(reward or 0.0)
        score = score_of(self._total / self._options.full_score)
        return Answer(
            observation=Observation(text=self._text(data)),
            score=score,
            raw_score=self._total,
            terminated=done,
            success=done and score == 1.0,
        )

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is None:
            return
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await socket.send(json.dumps({"type": "close"}))
                await socket.close()
        except (TimeoutError, WebSocketException, OSError):
            return

    async def _call(self, message: Mapping[str, Any], *, reopen: bool = False) -> Mapping[str, Any]:
        """Send a message and return the data of the answer. A failure closes the connection: its
        session is lost. `reopen`: the message needs nothing of an earlier session, so that it is
        sent on a new connection if the present one turns out to be closed."""
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._exchanged(json.dumps(message), reopen)
        except (TimeoutError, InvalidHandshake, OSError) as error:
            await self.close()
            raise UnreachableError(
                f"{self._url}: {message['type']} got no answer ({str(error) or 'timeout'})"
            ) from None
        except InvalidURI as error:
            raise WorldError(f"url: {self._url!r} is not a URL ({error})") from None
        except (WebSocketException, ValueError) as error:
            await self.close()
            raise SessionError(
                f"{self._url}: {message['type']} was interrupted ({error})"
            ) from None
        data = answer.get("data") if isinstance(answer, dict) else None
        if isinstance(data, dict) and answer.get("type") == "observation":
            return data
        await self.close()
        if not isinstance(data, dict) or answer.get("type") != "error":
            raise ContractError(f"{self._url}: {message['type']} answered {short(answer)}")
        text = f"{self._url}: {message['type']}: {short(data.get('message'))}"
        if data.get("code") == "CAPACITY_REACHED":
            raise CapacityError(text)
        if data.get("code") == "VALIDATION_ERROR":
            raise ContractError(f"{text}; check actionField")
        raise SessionError(text)

    async def _exchanged(self, message: str, reopen: bool) -> Any:
        """The answer to a message. Raises what `websockets` raises, and `ValueError`."""
        kept = self._socket is not None
        try:
            socket = await self._opened()
            await socket.send(message)
            return parse_json(await socket.recv())
        except ConnectionClosed:
            if not (reopen and kept):
                raise
        # Between two iterations a worker's event loop stands still and answers no ping, so that
        # the server closes the connections that are kept.
        await self.close()
        return await self._exchanged(message, reopen=False)

    async def _opened(self) -> ClientConnection:
        if self._socket is None:
            address = f"ws{self._url.removeprefix('http')}/ws"
            self._socket = await connect_socket(
                address,
                open_timeout=OPEN_TIMEOUT_S,
                max_size=MAX_MESSAGE_BYTES,
                proxy=None if is_address(self._url) else True,
            )
        return self._socket

    def _text(self, data: Mapping[str, Any]) -> str:
        observation = data.get("observation")
        text = observation.get(self._observation) if isinstance(observation, Mapping) else None
        if not isinstance(text, str):
            raise ContractError(
                f"{self._url}: {self._observation} of an observation is {short(text)}, not text; "
                "check observationField"
            )
        return text
