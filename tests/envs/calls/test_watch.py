"""Calls that take long are reported: which environment, task and call, and for how long."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from blocking_tasks import BlockingTasks

from agentrl_envs.calls.watch import WATCH, Call, CallWatch
from agentrl_envs.env import Task
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.world import LocalWorld

TASK = CorridorTasks().task("train", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class WatchedTime:
    """A watch whose time a test sets, and the lines that it reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._clock = Clock()
        self.watch = CallWatch(self.lines.append, clock=self._clock)

    def begun(self, environment: str, name: str, task: Task | None = None) -> Call:
        call = self.watch.call(environment, name, task)
        call.begin()
        return call

    def after(self, seconds: float) -> list[str]:
        """The lines that are reported `seconds` after the beginning."""
        self._clock.now = 1000.0 + seconds
        before = len(self.lines)
        self.watch.look()
        return self.lines[before:]


def test_a_call_is_reported_after_one_minute_and_then_after_twice_as_long_each_time():
    time = WatchedTime()
    time.begun("lights", "step", TASK)
    assert time.after(59) == []
    assert time.after(60) == [
        f"environment lights: step of task {TASK.id} has been running for 60 s"
    ]
    assert time.after(119) == []
    assert time.after(120) == [
        f"environment lights: step of task {TASK.id} has been running for 2 min"
    ]
    assert time.after(239) == []
    assert time.after(240)[0].endswith("running for 4 min")
    assert time.after(479) == []
    assert time.after(481)[0].endswith("running for 8 min")


def test_many_calls_of_an_environment_that_hang_are_one_line_about_the_oldest():
    time = WatchedTime()
    time.begun("lights", "reset", TASK)
    time.after(1)
    for _ in range(31):
        time.begun("lights", "step")
    time.begun("dial", "task('train', 3)")
    assert time.after(60)[0].endswith("has been running for 60 s")
    assert time.after(61) == ["environment dial: task('train', 3) has been running for 60 s"]
    assert time.after(120) == [
        f"environment lights: reset of task {TASK.id} has been running for 2 min, 31 other calls "
        "for 60 s or more"
    ]


def test_a_call_that_has_ended_is_not_reported_and_the_next_one_is_after_a_minute():
    time = WatchedTime()
    first = time.begun("lights", "step")
    time.after(480)
    first.end()
    assert time.after(490) == []
    time.begun("lights", "reset")
    assert time.after(549) == []
    assert time.after(550) == ["environment lights: reset has been running for 60 s"]


def test_a_forked_process_watches_its_own_calls_only():
    time = WatchedTime()
    time.begun("lights", "step")
    time.watch.forget()
    time.begun("dial", "reset")
    assert time.after(60) == ["environment dial: reset has been running for 60 s"]


def test_one_thread_watches_all_calls():
    def threads() -> int:
        return sum(thread.name == "call watch" for thread in threading.enumerate())

    before = threads()
    time = WatchedTime()
    for _ in range(10):
        time.begun("lights", "step")
    assert threads() == before + 1


class WaitingTasks(BlockingTasks):
    """Dealing a task, and relabeling, block until `gate` is set."""

    def task(self, split, index):
        self.gate.wait()
        return super().task(split, index)

    def relabel(self, observation: str, goal: str) -> str:
        self.gate.wait()
        return observation


async def resets(world: LocalWorld) -> None:
    await world.session().reset(TASK)


async def steps(world: LocalWorld) -> None:
    session = world.session()
    task_set = world.task_set
    assert isinstance(task_set, WaitingTasks)
    task_set.block_resets = False
    await session.reset(TASK)
    await session.step("wait")


async def deals(world: LocalWorld) -> None:
    await world.task("train", 3)


async def relabels(world: LocalWorld) -> None:
    await world.relabel([("a", "b")])


@pytest.mark.parametrize("in_threads", [False, True])
@pytest.mark.parametrize(
    ("play", "call"),
    [
        (resets, f"reset of task {TASK.id}"),
        (steps, f"step of task {TASK.id}"),
        (deals, "task('train', 3)"),
        (relabels, "relabel"),
    ],
)
def test_a_call_that_hangs_is_reported_also_if_it_blocks_the_event_loop(
    play: Callable, call: str, in_threads: bool
):
    tasks = WaitingTasks(block_resets=True)
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        tasks.gate.set()  # the call returns

    watch = CallWatch(report, first_s=0.05)
    asyncio.run(play(LocalWorld(tasks, in_threads=in_threads, watch=watch)))
    assert lines[0] == f"environment corridor: {call} has been running for 0 s"


def test_calls_that_wait_for_a_thread_have_not_begun():
    """Otherwise many sessions of an environment with threads would look as if they hung."""
    tasks = WaitingTasks()
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        if "other calls" in line:
            tasks.gate.set()

    async def play() -> None:
        world = LocalWorld(tasks, in_threads=True, watch=CallWatch(report, first_s=0.05))
        sessions = [world.session() for _ in range(100)]
        await asyncio.gather(*(session.reset(TASK) for session in sessions))
        await asyncio.gather(*(session.step("wait") for session in sessions))

    asyncio.run(play())
    line = next(line for line in lines if "other calls" in line)
    others = line.partition(", ")[2].split(" ")[0]
    assert int(others) < 99  # the threads of a world are fewer than the sessions


HANGING = """
import asyncio, threading
from agentrl_envs.calls.watch import CallWatch
from agentrl_envs.environments.corridor import CorridorEnvironment, CorridorTasks
from agentrl_envs.world import LocalSession

class Hanging(CorridorEnvironment):
    def step(self, action):
        threading.Event().wait()

async def play():
    session = LocalSession(Hanging, "lights", watch=CallWatch(first_s=0.2))
    await session.reset(CorridorTasks().task("train", 0))
    await session.step("left")

asyncio.run(play())
"""


def test_a_note_is_written_to_the_terminal_of_a_process_without_logging():
    process = subprocess.Popen([sys.executable, "-c", HANGING], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
    assert line == f"environment lights: step of task {TASK.id} has been running for 0 s\n"


def test_a_note_is_a_warning_in_the_log(caplog):
    clock = Clock()
    watch = CallWatch(clock=clock)
    watch.call("lights", "step").begin()
    clock.now += 60
    watch.look()
    assert [(one.levelname, one.name, one.getMessage()) for one in caplog.records] == [
        (
            "WARNING",
            "agentrl_envs.calls.watch",
            "environment lights: step has been running for 60 s",
        )
    ]


def test_the_watch_of_a_process_reports_after_one_minute():
    assert WATCH.first_s == 60.0
