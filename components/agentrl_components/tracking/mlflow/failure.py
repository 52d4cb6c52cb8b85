"""Errors of MLflow's client: which of them may go away, and how they are reported."""

from __future__ import annotations

import re

from agentrl_components.errors import TrackerError

_STATUS = re.compile(r"failed with error code (\d+) != ")
"""In the text of an error whose answer is not MLflow's own, as that of a proxy. MLflow takes every
status for 500 then."""


def is_transient(error: Exception) -> bool:
    """Whether the same job may succeed later."""
    status = _status(error)
    if status is None:
        from sqlalchemy.exc import SQLAlchemyError

        return isinstance(error, (OSError, SQLAlchemyError))
    return status >= 500 or status in (408, 429)


def line(error: Exception) -> str:
    """The error in one line of at most 500 characters. It begins with the class of an unexpected
    error: a `KeyError` says only the key."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    text = " ".join(str(error).split())
    expected = (MlflowException, OSError, SQLAlchemyError, TrackerError)
    return (text if isinstance(error, expected) else f"{type(error).__name__}: {text}")[:500]


def _status(error: Exception) -> int | None:
    """The status of the server's answer. None: the error is none of an answer."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        found = _STATUS.search(str(error))
        return int(found[1]) if found else int(error.get_http_status_code())
    answer = getattr(error, "response", None)  # to an upload, in an error of `requests`
    status: int | None = getattr(answer, "status_code", None)
    return status
