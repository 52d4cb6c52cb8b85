"""Environment servers: ports, threads and concurrent requests."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
from blocking_tasks import BlockingTasks
from corridor_http import error_of, opened, served, stepped

from agentrl_envs import registry
from agentrl_envs.conformance.faults import Faults, FaultyTaskSet
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.process_executor import ProcessExecutor
from agentrl_envs.server.run import ServeError, bind_socket, check_exposure, running


def test_listening_beyond_loopback_requires_a_token():
    with pytest.raises(ServeError, match=r"0\.0\.0\.0 can be reached from other machines"):
        check_exposure("0.0.0.0", has_token=False)
    with pytest.raises(ServeError, match=r":: can be reached from other machines"):
        check_exposure("::", has_token=False)
    check_exposure("127.0.0.1", has_token=False)
    check_exposure("::1", has_token=False)
    check_exposure("0.0.0.0", has_token=True)


def test_error_names_the_port_that_is_in_use():
    with bind_socket("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(
            ServeError, match=f"cannot listen on 127.0.0.1:{bound.getsockname()[1]}"
        ):
            bind_socket("127.0.0.1", bound.getsockname()[1])


def test_slow_environment_blocks_neither_probes_nor_other_sessions():
    barrier = threading.Barrier(9, timeout=300)

    class BarrierTasks(CorridorTasks):
        """Creates environments only when eight calls and the test have reached the barrier."""

        def environment(self):
            barrier.wait()
            return super().environment()

    with served(BarrierTasks()) as http, ThreadPoolExecutor(8) as pool:
        opening = [pool.submit(opened, http, f"k{number}") for number in range(8)]
        assert http.get("/healthz").status_code == 200
        barrier.wait()
        answers = [answer.result() for answer in opening]
        assert [a.text for a in answers if a.status_code != 201] == []


def test_timed_out_call_loses_its_session_and_frees_its_slot():
    slow = BlockingTasks(block_resets=True)
    with served(slow, timeout_s=0.1, capacity=1) as http, slow.opened_on_exit():
        for key in ("a", "b"):
            answer = opened(http, key)
            assert error_of(answer) == (500, "session")
            assert "took longer than 0.1 s" in answer.text


def test_64_concurrent_sessions_are_isolated():
    tasks = CorridorTasks()
    with served(tasks, capacity=64) as http, ThreadPoolExecutor(16) as pool:

        def episode(index: int) -> list[str]:
            task = tasks.task("train", index)
            body = {
                "task": {"id": task.id, "category": task.category, "payload": dict(task.payload)},
                "key": f"k{index}",
            }
            answer = http.post("/v1/sessions", json=body).json()
            seen = [answer["observation"]["text"]]
            for n, action in enumerate(("left", "right", "left"), start=1):
                step = stepped(http, answer["id"], n, action).json()["step"]
                seen.append(step["observation"]["text"])
            return seen

        def alone(index: int) -> list[str]:
            environment = tasks.environment()
            seen = [environment.reset(tasks.task("train", index)).text]
            return seen + [environment.step(a).observation.text for a in ("left", "right", "left")]

        assert list(pool.map(episode, range(64))) == [alone(index) for index in range(64)]


def test_identical_concurrent_steps_are_executed_once():
    slow = FaultyTaskSet(CorridorTasks(), Faults(latency_s=0.1))
    with served(slow) as http, ThreadPoolExecutor(4) as pool:
        session = opened(http).json()["id"]
        answers = list(pool.map(lambda _: stepped(http, session, 1, "left").json(), range(4)))
        assert answers == [answers[0]] * 4
        assert "left 1" in json.dumps(answers[0])


def test_server_leaves_no_threads():
    before = threading.active_count()
    with served() as http:
        opened(http)
    deadline = time.monotonic() + 300
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_process_executor_gives_the_same_episode():
    factory = partial(registry.task_set, "corridor", {"turns": 6})
    app = create_app(factory(), ProcessExecutor(factory, workers=1), ServerOptions())
    with running(app) as url, httpx.Client(base_url=url, timeout=300) as http:
        session = opened(http).json()["id"]
        texts = [
            stepped(http, session, n, "left").json()["step"]["observation"]["text"] for n in (1, 2)
        ]
        assert texts == ["corridor 5 red door left 1", "corridor 5 red door here"]
        assert http.delete(f"/v1/sessions/{session}").status_code == 204
