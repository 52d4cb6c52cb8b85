"""Errors of the code of environments have the frames of that code only."""

import asyncio
import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest
from raising_tasks import RaisingTasks

from agentrl_envs.calls.code_errors import code_errors
from agentrl_envs.env import Observation, Task
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.errors import CodeError, ContractError, OptionError, TaskError
from agentrl_envs.server.execution.process_world import ProcessWorld
from agentrl_envs.world import LocalWorld

TASK = CorridorTasks().task("train", 0)
EXHAUSTED = partial(RaisingTasks, StopIteration())
"""As `next(...)` without a match in a step."""


class Broken(CorridorEnvironment):
    """Its reset and step raise errors, or give answers, that the contract does not know."""

    def reset(self, task: Task) -> Observation:
        if task.category == "raise":
            raise KeyError("bug in my env")
        return super().reset(task)

    def step(self, action: str):
        if action == "raise":
            return self._divide(0)
        return (Observation(text="a tuple"), 1.0)

    def _divide(self, by: int) -> float:
        return 1 / by


class BrokenTasks(CorridorTasks):
    def environment(self) -> Broken:
        return Broken()

    def size(self, split):
        raise RuntimeError("no size")


def step_error(action: str, *, in_threads: bool = False) -> BaseException:
    async def play() -> None:
        session = LocalWorld(BrokenTasks(), in_threads=in_threads).session()
        await session.reset(TASK)
        await session.step(action)

    with pytest.raises((CodeError, ContractError)) as raised:
        asyncio.run(play())
    return raised.value


@pytest.mark.parametrize("in_threads", [False, True])
def test_an_error_of_a_step_names_environment_task_and_line_and_has_its_frames(in_threads):
    first, *frames = str(step_error("raise", in_threads=in_threads)).splitlines()
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), start=1)
        if text == "        return 1 / by"
    )
    assert first == (
        "environment corridor: ZeroDivisionError: division by zero at "
        f"test_code_errors.py:{line} (task {TASK.id})"
    )
    shown = [frame.split(", in ")[1] for frame in frames if "File" in frame]
    assert shown == ["step", "_divide"]


def test_an_answer_that_is_no_step_is_named():
    assert str(step_error("left")).startswith("environment corridor: step: the answer is (Obs")


def test_a_method_of_the_task_set_that_raises_is_named():
    with pytest.raises(CodeError, match="environment corridor: RuntimeError: no size at test_"):
        LocalWorld(BrokenTasks()).size("train")


@pytest.mark.parametrize("error", [TaskError("foreign"), OptionError("no such option")])
def test_errors_that_the_contract_knows_are_not_changed(error):
    with pytest.raises(type(error)) as raised, code_errors("corridor"):
        raise error
    assert raised.value is error


def test_an_error_of_another_process_has_the_frames_that_were_raised_there():
    code = "def failing():\n    raise KeyError('far away')\n\nfailing()"
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(CodeError) as raised,
        code_errors("far"),
    ):
        pool.submit(exec, code, {}).result(timeout=60)
    assert str(raised.value).splitlines() == [
        "environment far: KeyError: 'far away' at <string>:2",
        '  File "<string>", line 4, in <module>',
        '  File "<string>", line 2, in failing',
    ]


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(lambda: LocalWorld(EXHAUSTED()), id="on the event loop"),
        pytest.param(lambda: LocalWorld(EXHAUSTED(), in_threads=True), id="in threads"),
        pytest.param(lambda: ProcessWorld(EXHAUSTED, workers=1), id="in a process"),
    ],
)
def test_a_stop_iteration_of_a_step_is_an_error_of_its_line_wherever_it_is_called(world):
    """Regression: in threads and processes the step was never done, because asyncio does not let
    a future have this error."""

    async def play() -> None:
        opened = world()
        try:
            session = opened.session()
            await session.reset(TASK)
            async with asyncio.timeout(60):
                await session.step("raise")
        finally:
            await opened.close()

    with pytest.raises(CodeError, match="StopIteration") as raised:
        asyncio.run(play())
    first, *frames = str(raised.value).splitlines()
    assert re.search(r" at raising_tasks.py:\d+ \(task ", first)
    assert [frame.split(", in ")[1] for frame in frames if "File" in frame] == ["step"]
