"""The HTTP API of an environment server: sessions, steps, capacity and metrics."""

import json
import logging
import time

import httpx
import pytest
from blocking_tasks import BlockingTasks
from corridor_http import RED_LEFT_2, FakeClock, error_of, opened, served, stepped
from raising_tasks import RaisingTasks

from agentrl_envs.conformance.faults import Faults, FaultyTaskSet
from agentrl_envs.env import Observation, Step, Task
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.protocol import TIMEOUT_HEADER
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running


def test_open_returns_a_session_and_the_first_observation():
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


def test_environment_endpoint_describes_the_server():
    with served(capacity=7, ttl_s=9) as http:
        answer = http.get("/v1/environment").json()
        assert (answer["name"], answer["train"], answer["heldout"]) == ("corridor", 97, 23)
        assert (answer["capacity"], answer["ttl_s"]) == (7, 9.0)
        assert len(answer["tasks_hash"]) == 16
        assert "door" in answer["vocabulary"]


def test_tasks_endpoint_returns_a_slice_of_a_split():
    with served() as http:
        dealt = http.get("/v1/tasks/heldout", params={"start": 2, "count": 2}).json()["tasks"]
        expected = [CorridorTasks().task("heldout", index).id for index in (2, 3)]
        assert [task["id"] for task in dealt] == expected


def test_repeated_step_is_executed_once():
    with served() as http:
        session = opened(http).json()["id"]
        first = stepped(http, session, 1, "left")
        again = stepped(http, session, 1, "left")
        assert first.json() == again.json()
        assert "here" in stepped(http, session, 2, "left").text


def test_repeated_open_opens_one_session():
    with served(capacity=1) as http:
        assert opened(http, "same").json() == opened(http, "same").json()


def test_key_reused_for_another_task_is_a_conflict():
    """Regression: the server returned the session of the first task."""
    with served() as http:
        first = opened(http, "same").json()
        other = CorridorTasks().task("train", 0)
        body = {"id": other.id, "category": other.category, "payload": dict(other.payload)}
        refused = http.post("/v1/sessions", json={"task": body, "key": "same"})
        assert error_of(refused) == (409, "conflict")
        assert "use a new key" in refused.text
        assert opened(http, "same").json() == first


def test_payload_with_the_id_of_another_task_is_a_task_error():
    with served() as http:
        other = CorridorTasks().task("train", 0)
        forged = RED_LEFT_2 | {"id": other.id}
        answer = http.post("/v1/sessions", json={"task": forged, "key": "k"})
        assert error_of(answer) == (422, "task")
        assert other.id in answer.json()["error"]["message"]


def test_skipped_step_number_is_a_conflict_and_keeps_the_session():
    with served() as http:
        session = opened(http).json()["id"]
        assert error_of(stepped(http, session, 2, "left")) == (409, "conflict")
        assert stepped(http, session, 1, "left").status_code == 200


def test_repeated_step_with_another_action_is_a_conflict():
    with served() as http:
        session = opened(http).json()["id"]
        stepped(http, session, 1, "left")
        assert error_of(stepped(http, session, 1, "right")) == (409, "conflict")


def test_finished_episode_repeats_its_last_step_and_refuses_others():
    with served() as http:
        session = opened(http).json()["id"]
        for n, action in enumerate(("left", "left", "push"), start=1):
            last = stepped(http, session, n, action)
        assert last.json()["step"]["terminated"] is True
        assert stepped(http, session, 3, "push").json() == last.json()
        assert error_of(stepped(http, session, 4, "push")) == (409, "conflict")


def test_full_server_responds_429_with_retry_after():
    with served(capacity=1) as http:
        opened(http, "a")
        refused = opened(http, "b")
        assert error_of(refused) == (429, "capacity")
        assert int(refused.headers["retry-after"]) >= 1


def test_new_session_can_replace_another_on_a_full_server():
    with served(capacity=1) as http:
        first = opened(http, "a").json()["id"]
        second = opened(http, "b", replaces=first)
        assert second.status_code == 201
        assert error_of(stepped(http, first, 1, "left")) == (404, "session")


def test_idle_session_expires_after_its_ttl():
    clock = FakeClock()
    with served(capacity=1, ttl_s=0.2, clock=clock) as http:
        session = opened(http, "a").json()["id"]
        time.sleep(0.15)  # the reaper runs every 0.05 s, but the fake clock does not advance
        assert stepped(http, session, 1, "left").status_code == 200
        clock.now = 0.3
        while opened(http, "b").status_code != 201:
            time.sleep(0.02)
        assert error_of(stepped(http, session, 2, "left")) == (404, "session")


def test_a_renewed_session_does_not_expire():
    clock = FakeClock()
    with served(capacity=1, ttl_s=0.2, clock=clock) as http:
        session = opened(http, "a").json()["id"]
        clock.now = 0.15
        renewed = http.post("/v1/renewals", json={"sessions": [session, "nobody", session]})
        assert (renewed.status_code, renewed.json()) == (200, {"open": 1})
        clock.now = 0.3
        assert stepped(http, session, 1, "left").status_code == 200


def test_delete_is_idempotent_and_closed_session_refuses_steps():
    with served() as http:
        session = opened(http).json()["id"]
        assert http.delete(f"/v1/sessions/{session}").status_code == 204
        assert http.delete(f"/v1/sessions/{session}").status_code == 204
        assert error_of(stepped(http, session, 1, "left")) == (404, "session")


def test_task_of_another_environment_is_a_task_error():
    with served() as http:
        foreign = {"id": "x-0", "category": "x", "payload": {"maze": 1}}
        answer = http.post("/v1/sessions", json={"task": foreign, "key": "k"})
        assert error_of(answer) == (422, "task")
        assert "payload" in answer.json()["error"]["message"]


def test_hung_steps_do_not_exhaust_the_threads():
    """Regression: after four hung steps every reset failed while the server reported ready."""
    tasks = BlockingTasks()
    app = create_app(tasks, ThreadExecutor(tasks, threads=2), ServerOptions(timeout_s=0.2))
    with (
        running(app) as url,
        httpx.Client(base_url=url, timeout=300) as http,
        tasks.opened_on_exit(),
    ):
        for key in "abcdefgh":
            assert error_of(stepped(http, opened_in_time(http, key), 1, "wait")) == (500, "session")
        opened_in_time(http, "i")
        assert http.get("/readyz").text == "ok"
        hung = 8
        while http.get("/readyz").status_code == 200:  # until more calls hang than can be replaced
            stepped(http, opened_in_time(http, f"k{hung}"), 1, "wait")
            hung += 1
        assert hung == 9
        assert "9 calls into the environment have not returned" in http.get("/readyz").text
        tasks.gate.set()
        deadline = time.monotonic() + 60
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_call_ends_when_its_client_gives_up_although_the_server_would_wait_longer():
    """Regression: a hung call held its thread and its session for the limit of the server."""
    tasks, soon = BlockingTasks(), {TIMEOUT_HEADER: "0.2"}
    with served(tasks, timeout_s=3600) as http, tasks.opened_on_exit():
        alone = opened(http, "a").json()["id"]
        lost = stepped(http, alone, 1, "wait", soon)
        assert error_of(lost) == (500, "session")
        assert "step took longer than 0.2 s" in lost.text
        batched = opened(http, "b").json()["id"]
        steps = [{"session": batched, "n": 1, "action": "wait"}]
        (line,) = http.post("/v1/steps", json={"steps": steps}, headers=soon).text.splitlines()
        assert json.loads(line)["error"]["message"] == "step took longer than 0.2 s"
        tasks.block_resets = True
        reset = http.post("/v1/sessions", json={"task": RED_LEFT_2, "key": "c"}, headers=soon)
        assert error_of(reset) == (500, "session")
        assert 'agentrl_env_sessions{environment="corridor"} 0.0' in http.get("/metrics").text


def test_a_client_cannot_extend_the_limit_of_a_server():
    tasks = BlockingTasks()
    with served(tasks, timeout_s=0.5) as http, tasks.opened_on_exit():
        session = opened_in_time(http, "a")
        lost = stepped(http, session, 1, "wait", {TIMEOUT_HEADER: "3600"})
        assert "step took longer than 0.5 s" in lost.text


@pytest.mark.parametrize("given", ["soon", "nan", "-1", "0", "inf"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(given):
    with served() as http:
        session = opened(http).json()["id"]
        refused = stepped(http, session, 1, "left", {TIMEOUT_HEADER: given})
        assert error_of(refused) == (400, "invalid")
        assert stepped(http, session, 1, "left").status_code == 200


def opened_in_time(http: httpx.Client, key: str) -> str:
    """A new session. On a busy machine its reset may take longer than a server allows."""
    for attempt in range(20):
        answer = opened(http, f"{key}-{attempt}")
        if answer.status_code == 201:
            break
        assert error_of(answer) == (500, "session")
    return answer.json()["id"]


def test_metrics_count_sessions_refusals_steps_and_repeats():
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


def test_session_lost_by_its_environment_frees_its_slot():
    lost = FaultyTaskSet(CorridorTasks(), Faults(lose_step=1.0))
    with served(lost, capacity=1) as http:
        session = opened(http, "a").json()["id"]
        assert error_of(stepped(http, session, 1, "left")) == (500, "session")
        assert error_of(stepped(http, session, 1, "left")) == (404, "session")
        assert opened(http, "b").status_code == 201


class ExcessiveRewardTasks(CorridorTasks):
    """Returns a reward of 2, which the contract does not allow."""

    def environment(self):
        class ExcessiveReward:
            def reset(self, task: Task) -> Observation:
                return Observation(text="hello")

            def step(self, action: str) -> Step:
                return Step(
                    observation=Observation(text="money"),
                    reward=2.0,
                    terminated=False,
                    truncated=False,
                    wellformed=True,
                    success=False,
                    raw_score=2.0,
                )

            def close(self) -> None:
                return

        return ExcessiveReward()


def test_answer_that_violates_the_contract_is_a_contract_error():
    with served(ExcessiveRewardTasks()) as http:
        session = opened(http).json()["id"]
        answer = stepped(http, session, 1, "x")
        assert error_of(answer) == (500, "contract")
        assert "reward is 2.0" in answer.text


def test_a_stop_iteration_of_the_environment_is_answered_at_once():
    """Regression: the request waited for its time limit, and the log did not have the error."""
    with served(RaisingTasks(StopIteration())) as http:
        failed = stepped(http, opened(http).json()["id"], 1, "raise")
        assert error_of(failed) == (500, "internal")
        assert "the call raised StopIteration" in failed.text


@pytest.mark.parametrize("call", ["task", "reset", "step"])
def test_a_timeout_error_of_the_environment_is_not_the_time_limit_of_the_server(call):
    """Regression: the answer was that the call took longer than 3600 s, and the log did not have
    the error."""
    tasks = RaisingTasks(TimeoutError("the database did not answer"), call)
    with served(tasks, timeout_s=3600) as http:
        if call == "task":
            failed = http.get("/v1/tasks/train", params={"start": 0, "count": 1})
        else:
            failed = opened(http)
        if call == "step":
            failed = stepped(http, failed.json()["id"], 1, "raise")
        assert error_of(failed) == (500, "internal")
        message = failed.json()["error"]["message"]
        assert message == "TimeoutError: the database did not answer"


@pytest.mark.parametrize("batched", [False, True])
def test_an_error_whose_message_utf_8_cannot_encode_is_answered(batched, caplog):
    """Regression: the answer was no JSON, and a batch ended without a line for the step."""
    # pytest's worker processes could not send what the server logs.
    quiet = caplog.at_level(logging.CRITICAL, logger="agentrl_envs.server.error_responses")
    with quiet, served(RaisingTasks(ValueError("\ud83d")), timeout_s=60) as http:
        session = opened(http).json()["id"]
        steps = [{"session": session, "n": 1, "action": "raise"}]
        failed = (
            http.post("/v1/steps", json={"steps": steps})
            if batched
            else stepped(http, session, 1, "raise")
        )
        error = failed.json()["error"]
        assert (error["type"], error["message"]) == ("internal", "ValueError: \\ud83d")


def test_batched_steps_are_answered_with_one_json_line_each():
    with served() as http:
        first, second = (opened(http, key).json()["id"] for key in ("a", "b"))
        asked = [
            {"session": first, "n": 1, "action": "left"},
            {"session": "nobody", "n": 1, "action": "left"},
            {"session": second, "n": 5, "action": "left"},
        ]
        for _ in range(2):  # sent twice, executed once
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
