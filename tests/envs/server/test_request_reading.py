"""What is read from a request."""

import pytest
from starlette.requests import Request

from agentrl_envs import protocol
from agentrl_envs.server.error_responses import RequestError
from agentrl_envs.server.request_reading import read_body


async def test_a_client_that_leaves_before_its_body_is_complete_is_no_fault_of_the_server():
    """Regression: the log had a traceback."""
    sent = [
        {"type": "http.request", "body": b'{"task"', "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return sent.pop(0)

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(RequestError, match="the client left") as refused:
        await read_body(request, protocol.OpenRequest, limit=100, timeout_s=60.0)
    assert refused.value.status == 499
