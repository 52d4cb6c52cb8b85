"""Refusals: every error of the server as one JSON form, with the status code that fits."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from agentrl_envs.errors import CapacityError, ContractError, SessionError, TaskError, WorldError
from agentrl_envs.protocol import ErrorDetail, ErrorResponse, ErrorType
from agentrl_envs.server.leases import UnknownLeaseError
from agentrl_envs.server.sessions import ConflictError

LOG = logging.getLogger(__name__)

Handler = Callable[[Request, Exception], Awaitable[Response]]

# The first class that fits, so the special ones come first.
_STATUS: tuple[tuple[type[WorldError], int, ErrorType], ...] = (
    (CapacityError, 429, "capacity"),
    (UnknownLeaseError, 404, "session"),
    (ConflictError, 409, "conflict"),
    (SessionError, 500, "session"),
    (TaskError, 422, "task"),
    (ContractError, 500, "contract"),
)


class RefusedError(WorldError):
    """The request is not one that the server takes."""

    def __init__(
        self, status: int, kind: ErrorType, message: str, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind: ErrorType = kind
        self.field = field


def answer(status: int, kind: ErrorType, message: str, field: str | None = None) -> Response:
    """An `ErrorResponse` as a response."""
    body = ErrorResponse(error=ErrorDetail(type=kind, message=message, field=field))
    return Response(body.model_dump_json(), status, media_type="application/json")


def detail(error: BaseException) -> ErrorDetail:
    """An error as part of an answer about many things. What is no `WorldError` is logged: the
    environment, or the server, failed."""
    _, kind = _classified(error)
    if isinstance(error, WorldError):
        return ErrorDetail(type=kind, message=str(error))
    LOG.error("a call into the environment failed", exc_info=error)
    return ErrorDetail(type=kind, message=f"{type(error).__name__}: {error}")


def _classified(error: BaseException) -> tuple[int, ErrorType]:
    for family, status, kind in _STATUS:
        if isinstance(error, family):
            return status, kind
    return 500, "internal"


def refused_by(error: ValidationError) -> RefusedError:
    """The first mistake of a body, named. 400: not JSON at all; 422: not what is asked for."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return RefusedError(400, "invalid", f"the body is not JSON: {first['msg']}")
    field = ".".join(str(part) for part in first["loc"])
    return RefusedError(422, "invalid", first["msg"], field or None)


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return answer(error.status, error.kind, str(error), error.field)


async def _on_world_error(request: Request, error: Exception) -> Response:
    status, kind = _classified(error)
    response = answer(status, kind, str(error))
    if isinstance(error, CapacityError):
        response.headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    return response


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind: ErrorType = "not_found" if error.status_code in (404, 405) else "invalid"
    message = f"{request.method} {request.url.path}: {error.detail}"
    return answer(error.status_code, kind, message)


async def _on_anything_else(request: Request, error: Exception) -> Response:
    """The environment, or the server, failed. The server's log has the trace."""
    return answer(500, "internal", f"{type(error).__name__}: {error}")


HANDLERS: dict[int | type[Exception], Handler] = {
    RefusedError: _on_refusal,
    WorldError: _on_world_error,
    HTTPException: _on_http_exception,
    Exception: _on_anything_else,
}
