"""Error responses: every error of the server as one JSON form with a fitting status code."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agentrl_envs.errors import CapacityError, ContractError, SessionError, TaskError, WorldError
from agentrl_envs.protocol import ErrorDetail, ErrorResponse, ErrorType
from agentrl_envs.server.draining import DrainingError
from agentrl_envs.server.leases import ConflictError, UnknownLeaseError

LOG = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""Status for the log only: there is no client left to receive it."""

Handler = Callable[[Request, Exception], Awaitable[Response]]

# The first matching class applies, so subclasses come before their bases.
_STATUS: tuple[tuple[type[WorldError], int, ErrorType], ...] = (
    (CapacityError, 429, "capacity"),
    (DrainingError, 503, "draining"),
    (UnknownLeaseError, 404, "session"),
    (ConflictError, 409, "conflict"),
    (SessionError, 500, "session"),
    (TaskError, 422, "task"),
    (ContractError, 500, "contract"),
)


class RequestError(WorldError):
    """The request is malformed. `field`: the field at fault, if there is one."""

    def __init__(
        self, status: int, kind: ErrorType, message: str, field: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind: ErrorType = kind
        self.field = field


def error_response(
    status: int, kind: ErrorType, message: str, field: str | None = None
) -> Response:
    """A response whose body is an `ErrorResponse`."""
    body = ErrorResponse(error=ErrorDetail(type=kind, message=_encodable(message), field=field))
    return Response(body.model_dump_json(), status, media_type="application/json")


def error_detail(error: BaseException) -> ErrorDetail:
    """An error as part of a batch response. Logs errors that are no `WorldError`: they are bugs of
    the environment or of the server."""
    _, kind = _status_of(error)
    if isinstance(error, WorldError):
        return ErrorDetail(type=kind, message=_encodable(str(error)))
    LOG.error("a call into the environment failed", exc_info=error)
    return ErrorDetail(type=kind, message=_encodable(f"{type(error).__name__}: {error}"))


def validation_error(error: ValidationError) -> RequestError:
    """The first error of a body as a `RequestError`: 400 if it is not JSON, else 422."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return RequestError(400, "invalid", f"the body is not JSON: {first['msg']}")
    field = ".".join(str(part) for part in first["loc"])
    return RequestError(422, "invalid", first["msg"], field or None)


def _encodable(message: str) -> str:
    """A message of the environment as text that JSON can hold. It may quote output of a program
    that is not UTF-8."""
    return message.encode(errors="backslashreplace").decode()


def _status_of(error: BaseException) -> tuple[int, ErrorType]:
    for family, status, kind in _STATUS:
        if isinstance(error, family):
            return status, kind
    return 500, "internal"


async def _handle_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.status, error.kind, str(error), error.field)


async def _handle_world_error(request: Request, error: Exception) -> Response:
    status, kind = _status_of(error)
    response = error_response(status, kind, str(error))
    if isinstance(error, CapacityError):
        response.headers["retry-after"] = str(max(1, math.ceil(error.retry_after_s)))
    return response


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind: ErrorType = "not_found" if error.status_code in (404, 405) else "invalid"
    message = f"{request.method} {request.url.path}: {error.detail}"
    return error_response(error.status_code, kind, message)


async def _handle_disconnect(request: Request, error: Exception) -> Response:
    """The client left before its body was complete: no fault of the server."""
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _handle_other(request: Request, error: Exception) -> Response:
    """The environment or the server failed. Starlette logs the traceback."""
    return error_response(500, "internal", f"{type(error).__name__}: {error}")


HANDLERS: dict[int | type[Exception], Handler] = {
    RequestError: _handle_request_error,
    WorldError: _handle_world_error,
    HTTPException: _handle_http_exception,
    ClientDisconnect: _handle_disconnect,
    Exception: _handle_other,
}
