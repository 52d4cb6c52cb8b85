"""A corridor server for the duration of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from free_ports import free_ports

from agentrl_envs.client.http import ClientOptions
from agentrl_envs.env import Task, TaskSet, content_id
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.leases import Clock
from agentrl_envs.server.run import running

PATIENT = ClientOptions(call_s=300.0, retry_s=300.0, capacity_s=300.0, discovery_s=0.05)
"""Long timeouts, for calls that succeed eventually even on a busy machine."""
HURRIED = ClientOptions(call_s=300.0, retry_s=0.3, capacity_s=0.3, discovery_s=0.05)
"""Short timeouts, for calls that are expected to fail."""


def red_left_2() -> Task:
    payload = {"cells": 5, "start": 2, "side": "left", "colour": "red"}
    return Task(id=content_id("corridor", payload), category="walk-2", payload=payload)


@contextmanager
def served(
    tasks: TaskSet | None = None, clock: Clock | None = None, port: int = 0, **options
) -> Iterator[str]:
    tasks = tasks or CorridorTasks()
    app = create_app(tasks, ThreadExecutor(tasks), ServerOptions(**options), clock=clock)
    with running(app, port=port) as url:
        yield url


@contextmanager
def served_for_a_time(tasks: TaskSet | None = None, **options) -> Iterator[str]:
    """As `served`, for a server that stops during the test: nothing else gets its port then."""
    (port,) = free_ports(1)
    with served(tasks, port=port, **options) as url:
        yield url
