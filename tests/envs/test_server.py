import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import httpx
import pytest
from pydantic import SecretStr

from agentrl_envs import registry
from agentrl_envs.corridor import CorridorTasks
from agentrl_envs.env import Observation, Step, Task, TaskSet
from agentrl_envs.faults import Faults, FaultyTaskSet
from agentrl_envs.host import ProcessHost, ThreadHost
from agentrl_envs.server import ServerOptions, create_app
from agentrl_envs.serving import ServingError, check_exposure, listening, running

RED_LEFT_2 = {
    "id": "corridor-00",
    "category": "walk-2",
    "payload": {"cells": 5, "start": 2, "side": "left", "colour": "red"},
}


class Watch:
    """A clock that is turned by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def served(
    tasks: TaskSet | None = None, clock: Watch | None = None, **options
) -> Iterator[httpx.Client]:
    tasks = tasks or CorridorTasks()
    app = create_app(tasks, ThreadHost(tasks), ServerOptions(**options), clock=clock)
    with running(app) as url, httpx.Client(base_url=url, timeout=10) as http:
        yield http


def opened(http: httpx.Client, key: str = "k", **fields) -> httpx.Response:
    return http.post("/v1/sessions", json={"task": RED_LEFT_2, "key": key, **fields})


def stepped(http: httpx.Client, session: str, n: int, action: str) -> httpx.Response:
    return http.post(f"/v1/sessions/{session}/steps", json={"n": n, "action": action})


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["type"]


def test_one_call_opens_a_session_and_sets_the_task_up():
    with served() as http:
        answer = opened(http)
        assert answer.status_code == 201
        assert answer.json()["observation"] == {
            "text": "corridor 5 red door left 2",
            "admissible": ["left", "right"],
        }
        step = stepped(http, answer.json()["id"], 1, "left").json()["step"]
        assert step["observation"]["text"] == "corridor 5 red door left 1"
        assert (step["reward"], step["terminated"], step["truncated"]) == (0.0, False, False)


def test_a_server_says_what_it_serves():
    with served(capacity=7, ttl_s=9) as http:
        answer = http.get("/v1/environment").json()
        assert (answer["name"], answer["train"], answer["heldout"]) == ("corridor", 97, 23)
        assert (answer["capacity"], answer["ttl_s"]) == (7, 9.0)
        assert len(answer["tasks_hash"]) == 16
        assert "door" in answer["vocabulary"]


def test_tasks_are_dealt_by_split_from_a_start():
    with served() as http:
        dealt = http.get("/v1/tasks/heldout", params={"start": 2, "count": 2}).json()["tasks"]
        expected = [CorridorTasks().task("heldout", index).id for index in (2, 3)]
        assert [task["id"] for task in dealt] == expected


def test_a_step_sent_twice_is_taken_once():
    with served() as http:
        session = opened(http).json()["id"]
        first = stepped(http, session, 1, "left")
        again = stepped(http, session, 1, "left")
        assert first.json() == again.json()
        assert "here" in stepped(http, session, 2, "left").text


def test_an_open_sent_twice_opens_one_session():
    with served(capacity=1) as http:
        assert opened(http, "same").json() == opened(http, "same").json()


def test_a_gap_in_the_steps_is_a_conflict_and_does_not_harm_the_session():
    with served() as http:
        session = opened(http).json()["id"]
        assert error_of(stepped(http, session, 2, "left")) == (409, "conflict")
        assert stepped(http, session, 1, "left").status_code == 200


def test_the_last_number_with_another_action_is_a_conflict():
    with served() as http:
        session = opened(http).json()["id"]
        stepped(http, session, 1, "left")
        assert error_of(stepped(http, session, 1, "right")) == (409, "conflict")


def test_an_episode_that_is_over_takes_no_step_and_repeats_its_last():
    with served() as http:
        session = opened(http).json()["id"]
        for n, action in enumerate(("left", "left", "push"), start=1):
            last = stepped(http, session, n, action)
        assert last.json()["step"]["terminated"] is True
        assert stepped(http, session, 3, "push").json() == last.json()
        assert error_of(stepped(http, session, 4, "push")) == (409, "conflict")


def test_a_full_server_refuses_with_429_and_says_when_to_come_again():
    with served(capacity=1) as http:
        opened(http, "a")
        refused = opened(http, "b")
        assert error_of(refused) == (429, "capacity")
        assert int(refused.headers["retry-after"]) >= 1


def test_a_session_that_is_over_is_replaced_in_a_full_server():
    with served(capacity=1) as http:
        first = opened(http, "a").json()["id"]
        second = opened(http, "b", replaces=first)
        assert second.status_code == 201
        assert error_of(stepped(http, first, 1, "left")) == (404, "session")


def test_an_unused_session_is_given_away_when_its_time_is_over():
    watch = Watch()
    with served(capacity=1, ttl_s=0.2, clock=watch) as http:
        session = opened(http, "a").json()["id"]
        time.sleep(0.15)  # the reaper looks every 0.05 s, but the clock stands still
        assert stepped(http, session, 1, "left").status_code == 200
        watch.now = 0.3
        for _ in range(100):
            if opened(http, "b").status_code == 201:
                break
            time.sleep(0.02)
        assert error_of(stepped(http, session, 2, "left")) == (404, "session")


def test_a_closed_session_is_closed_for_good_and_closing_again_is_no_error():
    with served() as http:
        session = opened(http).json()["id"]
        assert http.delete(f"/v1/sessions/{session}").status_code == 204
        assert http.delete(f"/v1/sessions/{session}").status_code == 204
        assert error_of(stepped(http, session, 1, "left")) == (404, "session")


def test_a_task_of_another_world_is_a_task_error():
    with served() as http:
        foreign = {"id": "x-0", "category": "x", "payload": {"maze": 1}}
        answer = http.post("/v1/sessions", json={"task": foreign, "key": "k"})
        assert error_of(answer) == (422, "task")
        assert "payload" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, None),
        (b"\xff\xfe", 400, None),
        (b"[]", 422, None),
        (b'{"n": 0, "action": "left"}', 422, "n"),
        (b'{"n": 1, "action": 5}', 422, "action"),
        (b'{"n": 1, "action": "left", "more": 1}', 422, "more"),
        (b'{"n": 1, "action": "' + b"x" * 300_000 + b'"}', 422, "action"),
        (b'{"n": 1, "action": "' + b"x" * 2_000_000 + b'"}', 413, None),
        (b"[" * 100_000, 400, None),
    ],
)
def test_garbage_is_refused_and_the_server_goes_on(body, status, field):
    with served() as http:
        session = opened(http).json()["id"]
        answer = http.post(
            f"/v1/sessions/{session}/steps",
            content=body,
            headers={"content-type": "application/json"},
        )
        assert error_of(answer) == (status, "invalid")
        assert answer.json()["error"]["field"] == field
        assert stepped(http, session, 1, "left").status_code == 200


def test_a_body_of_another_type_is_refused_so_that_web_pages_cannot_post():
    with served() as http:
        answer = http.post("/v1/sessions", content="{}", headers={"content-type": "text/plain"})
        assert error_of(answer) == (415, "invalid")


def test_unknown_routes_methods_and_splits_have_typed_errors():
    with served() as http:
        assert error_of(http.get("/v2/nothing")) == (404, "not_found")
        assert error_of(http.put("/v1/sessions")) == (405, "not_found")
        assert error_of(http.get("/v1/tasks/test")) == (404, "not_found")
        assert error_of(http.get("/v1/tasks/train?start=-1")) == (400, "invalid")
        assert error_of(http.get("/v1/tasks/train?count=1001")) == (400, "invalid")


def test_a_token_is_asked_for_everywhere_but_at_the_probes():
    with served(token=SecretStr("sesame")) as http:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert http.get(path).status_code in (200, 503)
        assert error_of(http.get("/v1/environment")) == (401, "unauthorized")
        for given in ("Bearer wrong", "sesame", "Bearer sesame2", "bearer sesamé".encode()):
            wrong = http.get("/v1/environment", headers={"authorization": given})
            assert error_of(wrong) == (401, "unauthorized")
        right = http.get("/v1/environment", headers={"authorization": "Bearer sesame"})
        assert right.status_code == 200


def test_without_a_token_only_loopback_names_are_answered():
    with served() as http:
        rebound = http.get("/v1/environment", headers={"host": "evil.example"})
        assert rebound.status_code == 400


def test_a_server_is_not_opened_to_a_network_without_a_token():
    with pytest.raises(ServingError, match=r"0\.0\.0\.0 can be reached from other machines"):
        check_exposure("0.0.0.0", has_token=False)
    check_exposure("127.0.0.1", has_token=False)
    check_exposure("::1", has_token=False)
    check_exposure("0.0.0.0", has_token=True)


def test_a_taken_port_is_told_with_its_number():
    with listening("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(
            ServingError, match=f"cannot listen on 127.0.0.1:{bound.getsockname()[1]}"
        ):
            listening("127.0.0.1", bound.getsockname()[1])


def test_metrics_count_what_happened():
    with served(capacity=1) as http:
        session = opened(http, "a").json()["id"]
        opened(http, "b")
        stepped(http, session, 1, "left")
        stepped(http, session, 1, "left")
        text = http.get("/metrics").text
        label = '{environment="corridor"}'
        assert f"agentrl_env_sessions{label} 1.0" in text
        assert f"agentrl_env_sessions_refused_total{label} 1.0" in text
        assert f"agentrl_env_steps_total{label} 1.0" in text
        assert f"agentrl_env_repeats_total{label} 1.0" in text


def test_a_slow_environment_blocks_neither_the_probe_nor_the_others():
    slow = FaultyTaskSet(CorridorTasks(), Faults(latency_s=0.3))
    with served(slow) as http, ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        opening = [pool.submit(opened, http, f"k{number}") for number in range(8)]
        time.sleep(0.05)
        probe = time.monotonic()
        assert http.get("/healthz").status_code == 200
        assert time.monotonic() - probe < 0.2
        assert {answer.result().status_code for answer in opening} == {201}
        assert time.monotonic() - began < 1.2  # one after the other it would be 2.4 s


def test_a_step_that_takes_too_long_loses_its_session_and_frees_its_place():
    slow = FaultyTaskSet(CorridorTasks(), Faults(latency_s=0.4))
    with served(slow, timeout_s=0.1, capacity=1) as http:
        for key in ("a", "b"):
            answer = opened(http, key)
            assert error_of(answer) == (500, "session")
            assert "took longer than 0.1 s" in answer.text


def test_a_session_that_the_environment_loses_is_lost_and_not_failed():
    lost = FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))
    with served(lost, capacity=1) as http:
        session = opened(http, "a").json()["id"]
        assert error_of(stepped(http, session, 1, "left")) == (500, "session")
        assert error_of(stepped(http, session, 1, "left")) == (404, "session")
        assert opened(http, "b").status_code == 201


class GreedyTasks(CorridorTasks):
    """Pays 2 for the first step."""

    def environment(self):
        class Greedy:
            def reset(self, task: Task) -> Observation:
                return Observation(text="hello")

            def step(self, action: str) -> Step:
                info = {"wellformed": True, "success": False, "raw_score": 2.0}
                return Step(
                    observation=Observation(text="money"),
                    reward=2.0,
                    terminated=False,
                    truncated=False,
                    info=info,
                )

            def close(self) -> None:
                return

        return Greedy()


def test_an_environment_that_breaks_the_contract_is_told_so_by_its_server():
    with served(GreedyTasks()) as http:
        session = opened(http).json()["id"]
        answer = stepped(http, session, 1, "x")
        assert error_of(answer) == (500, "contract")
        assert "reward is 2.0" in answer.text


def test_sixty_four_sessions_at_once_do_not_hear_each_other():
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


def test_two_identical_steps_in_flight_are_one_step():
    slow = FaultyTaskSet(CorridorTasks(), Faults(latency_s=0.1))
    with served(slow) as http, ThreadPoolExecutor(4) as pool:
        session = opened(http).json()["id"]
        answers = list(pool.map(lambda _: stepped(http, session, 1, "left").json(), range(4)))
        assert answers == [answers[0]] * 4
        assert "left 1" in json.dumps(answers[0])


def test_no_thread_of_a_server_outlives_it():
    before = threading.active_count()
    with served() as http:
        opened(http)
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_worker_processes_play_the_same_episodes():
    factory = partial(registry.task_set, "corridor", {"turns": 6})
    app = create_app(factory(), ProcessHost(factory, workers=1), ServerOptions())
    with running(app) as url, httpx.Client(base_url=url, timeout=20) as http:
        session = opened(http).json()["id"]
        texts = [
            stepped(http, session, n, "left").json()["step"]["observation"]["text"] for n in (1, 2)
        ]
        assert texts == ["corridor 5 red door left 1", "corridor 5 red door here"]
        assert http.delete(f"/v1/sessions/{session}").status_code == 204


def test_steps_of_many_sessions_are_answered_by_a_line_each():
    with served() as http:
        first, second = (opened(http, key).json()["id"] for key in ("a", "b"))
        asked = [
            {"session": first, "n": 1, "action": "left"},
            {"session": "nobody", "n": 1, "action": "left"},
            {"session": second, "n": 5, "action": "left"},
        ]
        for _ in range(2):  # asked twice, taken once
            answer = http.post("/v1/steps", json={"steps": asked})
            assert answer.headers["content-type"] == "application/x-ndjson"
            lines = sorted(map(json.loads, answer.text.splitlines()), key=lambda o: o["index"])
            assert lines[0]["step"]["observation"]["text"] == "corridor 5 red door left 1"
            assert [line["error"] and line["error"]["type"] for line in lines] == [
                None,
                "session",
                "conflict",
            ]
        assert stepped(http, second, 1, "left").status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/steps", {"steps": []}, "steps"),
        ("/v1/steps", {"steps": [{"session": "s", "n": 0, "action": ""}]}, "steps.0.n"),
        ("/v1/steps", {"steps": [{"session": "s", "n": 1, "action": ""}] * 257}, "steps"),
        ("/v1/relabel", {"openings": [{"observation": "", "goal": ""}] * 65}, "openings"),
        ("/v1/relabel", {"openings": [{"observation": 1, "goal": ""}]}, "openings.0.observation"),
    ],
)
def test_requests_of_many_are_bounded_and_checked(path, body, field):
    with served() as http:
        answer = http.post(path, json=body)
        assert error_of(answer) == (422, "invalid")
        assert answer.json()["error"]["field"] == field


def test_a_server_whose_task_set_rewrites_no_goals_refuses_to():
    with served() as http:
        assert http.get("/v1/environment").json()["relabels"] is False
        answer = http.post("/v1/relabel", json={"openings": [{"observation": "o", "goal": "g"}]})
        assert error_of(answer) == (422, "task")
