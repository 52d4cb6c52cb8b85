"""A server is ready when the programs of its environment have started."""

import asyncio
from functools import partial

import httpx
import pytest
from raising_tasks import RaisingTasks
from unlit_lamp import BROKEN, FaultyLamp, Lamp

from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import OptionError, SessionError
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.executor import Executor
from agentrl_envs.server.execution.process_executor import ProcessExecutor
from agentrl_envs.server.execution.programs import Programs
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


def test_a_server_whose_program_does_not_start_is_not_ready_and_says_why():
    tasks = Lamp(None)
    with (
        running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url,
        httpx.Client(base_url=url) as http,
    ):
        assert http.get("/v1/environment").status_code == 500  # waits for the first attempt
        ready = http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, BROKEN)
        assert http.get("/healthz").status_code == 200


def test_an_exception_that_nobody_expects_is_the_reason_too():
    """Regression: the server stayed at 503 without a reason and answered no description."""
    tasks = FaultyLamp(None)
    with (
        running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url,
        httpx.Client(base_url=url) as http,
    ):
        assert http.get("/v1/environment", timeout=10).status_code == 500
        reason = "the programs of the environment did not start: TimeoutExpired(['lamp'], 3)"
        ready = http.get("/readyz")
        assert (ready.status_code, ready.text) == (503, reason)


@pytest.mark.parametrize(
    "open_executor",
    [
        lambda tasks: ThreadExecutor(tasks()),
        lambda tasks: ProcessExecutor(tasks, workers=1),
    ],
    ids=["threads", "processes"],
)
async def test_a_stop_iteration_of_the_start_is_the_reason_too(open_executor):
    """Regression: the start was never done."""
    tasks = partial(RaisingTasks, StopIteration(), "start_programs")
    executor = open_executor(tasks)
    try:
        async with asyncio.timeout(60):
            with pytest.raises(RuntimeError, match="the call raised StopIteration"):
                await executor.start_programs()
    finally:
        await executor.close()


def test_a_server_whose_program_has_started_is_ready():
    tasks = Lamp(1)
    with (
        running(create_app(tasks, ThreadExecutor(tasks), ServerOptions())) as url,
        httpx.Client(base_url=url) as http,
    ):
        assert http.get("/v1/environment").status_code == 200
        assert http.get("/readyz").status_code == 200
        assert tasks.attempts == 1


async def test_a_program_that_does_not_start_is_started_again():
    tasks = Lamp(3)
    programs = Programs(tasks, ThreadExecutor(tasks), retry_s=0.01)
    assert programs.problem == "the programs of the environment are starting"
    starting = asyncio.create_task(programs.start())
    with pytest.raises(SessionError, match="install a lamp"):
        await programs.check()
    await starting
    await programs.check()
    assert (programs.problem, tasks.attempts) == (None, 3)


async def test_after_an_exception_that_nobody_expects_the_program_is_started_again():
    tasks = FaultyLamp(2)
    programs = Programs(tasks, ThreadExecutor(tasks), retry_s=0.01)
    await programs.start()
    assert (programs.problem, tasks.attempts) == (None, 2)


async def test_a_server_without_programs_is_ready_at_once():
    tasks = CorridorTasks()
    programs = Programs(tasks, ThreadExecutor(tasks))
    await programs.check()
    assert programs.problem is None


@pytest.mark.parametrize("kind", ["threads", "processes"])
async def test_the_programs_start_in_the_processes_that_run_sessions(kind):
    executor: Executor = (
        ThreadExecutor(Lamp(None))
        if kind == "threads"
        else ProcessExecutor(partial(Lamp, None), workers=2)
    )
    with pytest.raises(OptionError, match="install a lamp"):
        await executor.start_programs()
    await executor.close()
