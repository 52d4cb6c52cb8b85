"""What the routes read from a request: its body, its query, whether the client has left."""

from __future__ import annotations

import asyncio
import math
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from agentrl_envs.env import Split
from agentrl_envs.protocol import TIMEOUT_HEADER
from agentrl_envs.server.error_responses import RequestError, validation_error

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request, model: type[M], *, limit: int, timeout_s: float) -> M:
    """The request body as `model`. Raises `RequestError` for another content type, a body longer
    than `limit` bytes, one that takes more than `timeout_s` seconds, and one that is not valid."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise RequestError(415, "invalid", "send the body as application/json", "content-type")
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise RequestError(413, "invalid", f"the body is longer than {limit} bytes")
    except TimeoutError:
        message = f"the body did not arrive within {timeout_s:g} s"
        raise RequestError(408, "invalid", message) from None
    try:
        return model.model_validate_json(bytes(body))
    except ValidationError as error:
        raise validation_error(error) from None


def split_of(request: Request) -> Split:
    """The split in the path. Raises `RequestError` for any other word."""
    given = request.path_params["split"]
    if given == "train":
        return "train"
    if given == "heldout":
        return "heldout"
    raise RequestError(404, "not_found", f"there is no split {given!r}; use train or heldout")


def query_number(request: Request, name: str, *, default: int, maximum: int) -> int:
    """The parameter `name` of the query, from 0 to `maximum`. Raises `RequestError` otherwise."""
    given = request.query_params.get(name, str(default))
    # int() raises ValueError for more than 4,300 digits, hence the check of the length.
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(maximum))
    if not is_number or int(given) > maximum:
        raise RequestError(400, "invalid", f"{name} must be an integer from 0 to {maximum}", name)
    return int(given)


def limit_of(request: Request) -> float:
    """Seconds after which the client gives up; infinite if it does not say. Raises `RequestError`
    for a header that is no number above 0."""
    given = request.headers.get(TIMEOUT_HEADER)
    if given is None:
        return math.inf
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        message = f"{TIMEOUT_HEADER} must be a number of seconds above 0"
        raise RequestError(400, "invalid", message, TIMEOUT_HEADER)
    return seconds


async def completes_before_disconnect(work: asyncio.Task[Any], request: Request) -> bool:
    """Wait for `work`, and cancel it if the client disconnects first. For requests without body."""
    leaving = asyncio.create_task(_disconnect(request))
    try:
        await asyncio.wait((work, leaving), return_when=asyncio.FIRST_COMPLETED)
        return work.done()
    finally:
        for task in (leaving, work):
            task.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
