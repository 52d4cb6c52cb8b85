"""Which errors of MLflow's client may go away."""

import pytest
from mlflow.exceptions import MlflowException
from requests import HTTPError, Response

from agentrl_components.tracking.mlflow.failure import is_transient


class TransportError(Exception):
    """As clients of buckets raise where the network is away."""


def answered(status: int) -> HTTPError:
    response = Response()
    response.status_code = status
    return HTTPError(response=response)


@pytest.mark.parametrize(
    "error", [TransportError(), ConnectionError(), answered(503), answered(429)]
)
def test_a_job_may_succeed_later(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError(),
        ModuleNotFoundError("boto3"),
        UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates not allowed"),
        MlflowException.invalid_parameter_value("no such parameter"),
        answered(413),
    ],
)
def test_a_job_that_cannot_be_sent_is_not_sent_again(error: Exception) -> None:
    assert not is_transient(error)
