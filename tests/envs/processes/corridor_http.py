"""A corridor server and an HTTP client for it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from agentrl_envs.env import TaskSet, content_id
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

PAYLOAD = {"cells": 5, "start": 2, "side": "left", "colour": "red"}
RED_LEFT_2 = {"id": content_id("corridor", PAYLOAD), "category": "walk-2", "payload": PAYLOAD}


class FakeClock:
    """A clock that tests set."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def served(
    tasks: TaskSet | None = None, clock: FakeClock | None = None, **options
) -> Iterator[httpx.Client]:
    tasks = tasks or CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(**options), clock=clock)
    with running(app) as url, httpx.Client(base_url=url, timeout=300) as http:
        yield http


def opened(http: httpx.Client, key: str = "k", **fields) -> httpx.Response:
    return http.post("/v1/sessions", json={"task": RED_LEFT_2, "key": key, **fields})


def stepped(
    http: httpx.Client, session: str, n: int, action: str, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    path = f"/v1/sessions/{session}/steps"
    return http.post(path, json={"n": n, "action": action}, headers=headers)


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]
