"""The corridor behind HTTP, for as long as a test needs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentrl_envs.corridor import CorridorTasks
from agentrl_envs.env import Task, TaskSet, content_id
from agentrl_envs.host import ThreadHost
from agentrl_envs.server import ServerOptions, create_app
from agentrl_envs.serving import running
from agentrl_envs.transport import Patience

HURRIED = Patience(call_s=2.0, retry_s=0.3, capacity_s=0.3)
QUICK = Patience(call_s=2.0, retry_s=0.3, capacity_s=1.0, look_s=0.05)


def red_left_2() -> Task:
    payload = {"cells": 5, "start": 2, "side": "left", "colour": "red"}
    return Task(id=content_id("corridor", payload), category="walk-2", payload=payload)


@contextmanager
def served(tasks: TaskSet | None = None, **options) -> Iterator[str]:
    tasks = tasks or CorridorTasks()
    with running(create_app(tasks, ThreadHost(tasks), ServerOptions(**options))) as url:
        yield url
