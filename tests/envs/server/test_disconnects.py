"""A client that leaves before its body is complete is no error of a server.

Regression: the log had a traceback for each."""

import pytest

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.environments.web_sites.app import create_app as create_sites
from agentrl_envs.protocols.agentgym_server import agentgym_gateway
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor


def environment():
    tasks = CorridorTasks()
    return create_app(tasks, ThreadExecutor(tasks), ServerOptions())


def agentgym():
    tasks = CorridorTasks()
    gateway = agentgym_gateway(tasks)
    return create_app(tasks, ThreadExecutor(tasks), ServerOptions(), gateway=gateway)


@pytest.mark.parametrize(
    ("app", "path"),
    [(environment, "/v1/sessions"), (agentgym, "/step"), (create_sites, "/shopping/login")],
    ids=["environment", "agentgym", "web sites"],
)
async def test_a_client_that_leaves_is_answered_with_499_and_no_error_is_raised(app, path):
    received = [
        {"type": "http.request", "body": b'{"task"', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent = []

    async def receive():
        return received.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    await app()(scope | {"query_string": b"", "root_path": "", "client": None}, receive, send)
    assert sent[0]["status"] == 499
