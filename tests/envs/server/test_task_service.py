"""Searching for tasks: a request for a distant task does not delay others."""

import asyncio
import threading
import time

import httpx
import pytest
from corridor_http import error_of, served
from raising_tasks import RaisingTasks

from agentrl_envs.env import Split, Task
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.errors import SessionError, TaskError
from agentrl_envs.protocol import TIMEOUT_HEADER
from agentrl_envs.server.task_service import TaskService

LEVELS = 5


class ScanningTasks(CorridorTasks):
    """Unbounded like BabyAI's; an index is found by scanning all earlier ones of its level."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        """Duration of the scan of one candidate."""
        self.scanned = [0] * LEVELS

    def size(self, split: Split) -> int | None:  # type: ignore[override]
        return None

    def task(self, split: Split, index: int) -> Task:
        position, level = divmod(index, LEVELS)
        missing = max(0, position + 1 - self.scanned[level])
        time.sleep(missing * self.seconds)
        self.scanned[level] += missing
        return super().task(split, index)


class HangingTaskSet(CorridorTasks):
    """Task 7 blocks until `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def task(self, split: Split, index: int) -> Task:
        if split == "train" and index == 7:
            self.gate.wait()
        return super().task(split, index)


class FaultyTaskSet(CorridorTasks):
    """Fails at its first calls."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    def task(self, split: Split, index: int) -> Task:
        if self.failures:
            self.failures -= 1
            raise FileNotFoundError("levels.json")
        return super().task(split, index)


async def test_a_stop_iteration_of_the_task_set_is_raised_at_once():
    """Regression: the request waited for its time limit."""
    service = TaskService(RaisingTasks(StopIteration(), "task"), timeout_s=300.0)
    with pytest.raises(RuntimeError, match="the call raised StopIteration"):
        await asyncio.wait_for(service.tasks("train", 0, 1), 60)
    service.close()


async def test_request_for_a_distant_task_does_not_delay_others():
    tasks = ScanningTasks(0.001)
    service = TaskService(tasks, timeout_s=300.0)
    distant = asyncio.create_task(service.tasks("train", 1_000_000, 1))  # 1,000 s in all
    for start in (0, 64, 128):
        dealt = await asyncio.wait_for(service.tasks("train", start, 64), 60)
        assert [task.id for task in dealt] == [
            CorridorTasks().task("train", start + offset).id for offset in range(64)
        ]
    assert not distant.done()
    distant.cancel()
    await asyncio.gather(distant, return_exceptions=True)
    await service.tasks("train", 0, 1)  # runs after the queued slices of the cancelled request
    scanned = sum(tasks.scanned)
    await asyncio.sleep(0.3)
    assert sum(tasks.scanned) == scanned
    service.close()


async def test_search_for_a_distant_task_scans_all_levels():
    tasks = ScanningTasks(0.0)
    service = TaskService(tasks, timeout_s=300.0)
    (task,) = await service.tasks("train", 3_000, 1)
    assert task == CorridorTasks().task("train", 3_000)
    assert min(tasks.scanned) > 0
    service.close()


async def test_search_timeout_is_a_task_error_with_the_progress_of_the_search():
    service = TaskService(ScanningTasks(0.001), timeout_s=300.0)
    with pytest.raises(TaskError, match=r"train task 1000000 was not found in 0\.5 s; the search"):
        await service.tasks("train", 1_000_000, 1, limit_s=0.5)
    assert len(await service.tasks("train", 0, 3)) == 3
    service.close()


async def test_hanging_task_set_raises_session_error_and_is_reported_as_a_problem():
    tasks = HangingTaskSet()
    service = TaskService(tasks, timeout_s=300.0)
    await service.prepare()
    assert service.problem is None
    try:
        for _ in range(2):
            with pytest.raises((SessionError, TaskError)):
                await service.tasks("train", 7, 1, limit_s=1.0)
        assert service.problem is not None
        assert "a call to the task set has not returned for" in service.problem
        with pytest.raises(SessionError, match="has not returned"):
            await service.tasks("train", 0, 1, limit_s=1.0)
    finally:
        tasks.gate.set()
    assert len(await service.tasks("train", 0, 1)) == 1
    assert service.problem is None
    service.close()


def test_disconnect_of_the_client_cancels_its_search():
    tasks = ScanningTasks(0.001)
    with served(tasks) as http:
        with pytest.raises(httpx.ReadTimeout):
            http.get("/v1/tasks/train", params={"start": 1_000_000}, timeout=0.5)
        assert http.get("/v1/tasks/train", timeout=60).status_code == 200
        deadline = time.monotonic() + 60
        while True:
            scanned = sum(tasks.scanned)
            time.sleep(0.5)
            if sum(tasks.scanned) == scanned:
                return
            assert time.monotonic() < deadline


def test_readiness_probe_says_why_no_task_can_be_dealt():
    """Regression: it said that the tasks are not ready yet, for ever."""
    with served(FaultyTaskSet(failures=1 << 30)) as http:
        alone = {"connection": "close"}  # the server closes it after an unexpected exception
        assert http.get("/v1/environment", headers=alone).status_code == 500
        ready = http.get("/readyz")
    reason = "the first tasks cannot be dealt: FileNotFoundError('levels.json')"
    assert (ready.status_code, ready.text) == (503, reason)


async def test_the_first_tasks_are_dealt_again_after_a_failure():
    service = TaskService(FaultyTaskSet(failures=2), timeout_s=300.0)
    assert service.problem == "the tasks are not ready yet"
    await service.start(retry_s=0.01)
    assert service.problem is None


@pytest.mark.parametrize(("timeout_s", "headers"), [(1.0, {}), (3600.0, {TIMEOUT_HEADER: "1"})])
def test_readiness_probe_fails_if_the_task_set_hangs(timeout_s, headers):
    tasks = HangingTaskSet()
    with served(tasks, timeout_s=timeout_s) as http:
        try:
            assert http.get("/v1/environment").status_code == 200
            assert http.get("/readyz").text == "ok"
            assert http.get("/v1/tasks/train?start=7", headers=headers).status_code in (422, 500)
            answer = http.get("/v1/tasks/train", headers=headers)
            assert error_of(answer) == (500, "session")
            ready = http.get("/readyz")
            assert (ready.status_code, "has not returned" in ready.text) == (503, True)
        finally:
            tasks.gate.set()
