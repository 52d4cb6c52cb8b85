"""Errors of MLflow's client: which of them may go away, and how they are reported."""

from __future__ import annotations

import re

from agentrl_components.errors import TrackerError

_STATUS = re.compile(r"failed with error code (\d+) != ")
"""The HTTP status in MLflow's message about an answer that is not MLflow's own, such as a proxy's.
MLflow reports such errors as 500."""

_OF_CODE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NotImplementedError,
    TypeError,
    ValueError,
    TrackerError,
)
"""Errors of a job that MLflow's client cannot send: it would not be able to later either."""


def is_transient(error: Exception) -> bool:
    """Whether the same job may succeed later. So may one that failed with an error of a class that
    is not known here: clients of buckets (boto3, google-cloud-storage) have their own for a network
    that is away."""
    status = _status(error)
    if status is None:
        return isinstance(error, OSError) or not isinstance(error, _OF_CODE)
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
    """The HTTP status of the answer that the error reports. None: it reports none."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        found = _STATUS.search(str(error))
        return int(found[1]) if found else int(error.get_http_status_code())
    answer = getattr(error, "response", None)  # to an upload, in an error of `requests`
    status: int | None = getattr(answer, "status_code", None)
    return status
