"""Timeouts of incomplete requests."""

import json
import socket
import time
from urllib.parse import urlsplit

from corridor_http import error_of, opened, served
from websockets.sync.client import connect as connect_socket

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.protocols.openenv_server import openenv_gateway
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


def connect(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def is_closed(connection: socket.socket, trickle: bytes) -> bool:
    """Whether the server closes a connection that sends these bytes, one every 0.05 s."""
    connection.settimeout(0.05)
    for byte in trickle:
        try:
            connection.sendall(bytes([byte]))
            if connection.recv(1) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def test_connection_without_a_complete_request_is_closed():
    """Regression: 800 such connections stayed open without limit."""
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    with running(app, head_timeout_s=0.5) as url:
        silent = [connect(url) for _ in range(50)]
        trickling = connect(url)
        assert is_closed(trickling, b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 600)
        trickling.close()
        for each in silent:
            assert each.recv(1) == b""
            each.close()


def test_connection_is_kept_alive_between_requests():
    tasks = CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions())
    request = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with running(app, head_timeout_s=1.0) as url:
        connection = connect(url)
        connection.sendall(request)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(1.5)  # longer than the limit, which does not apply between requests
        connection.sendall(request)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.close()


def test_the_limit_for_request_heads_does_not_close_a_websocket():
    """Regression: every episode over OpenEnv's protocol was cut 30 s after its connection."""
    tasks = CorridorTasks()
    gateway = openenv_gateway(tasks)
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(), gateway=gateway)
    with running(app, head_timeout_s=1.0, websockets=True) as url:
        with connect_socket(f"ws{url.removeprefix('http')}/ws", proxy=None) as raw:
            time.sleep(1.5)  # longer than the limit
            raw.send('{"type": "state"}')
            answer = json.loads(raw.recv(timeout=60))
        assert answer == {"type": "state", "data": {"episode_id": "", "step_count": 0}}
        silent = connect(url)
        assert silent.recv(1) == b""
        silent.close()


def test_incomplete_body_times_out_with_408():
    def slow():
        yield b'{"n": 1, '
        time.sleep(2.0)
        yield b'"action": "left"}'

    with served(body_timeout_s=1.0) as http:
        session = opened(http).json()["id"]
        answer = http.post(
            f"/v1/sessions/{session}/steps",
            content=slow(),
            headers={"content-type": "application/json"},
        )
        assert error_of(answer) == (408, "invalid")
