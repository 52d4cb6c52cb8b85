"""Episodes as the real worker records them: one trace each, with a span for each turn."""

import json
from dataclasses import replace

from mlflow_server import mlflow_server
from mlflow_worker import Worker
from timed_episode import episode

from agentrl_components.tracking.mlflow.traces import turn_times_ns
from agentrl_components.tracking.send_queue import Episodes
from agentrl_components.trajectory.record import Trajectory


def test_episodes_become_traces_with_one_span_per_turn(worker: Worker) -> None:
    run_id = worker.start()
    episodes = Episodes(iteration=3, name="train", time_ms=5000, episodes=(episode(0), episode(1)))
    assert worker.ask(episodes).error is None
    assert worker.ask(replace(episodes, time_ms=9000)).error is None  # sent again after a restart
    traces = worker.rows(
        "select i.request_id, i.request_preview, i.response_preview, i.timestamp_ms"
        " from trace_info i"
        " join trace_request_metadata m on m.request_id = i.request_id"
        " where m.key = 'mlflow.sourceRun' and m.value = ?",
        run_id,
    )
    assert len(traces) == 2
    trace_id, request, response, time_ms = traces[0]
    assert time_ms == 5000
    assert request == "You see a red ball"
    assert response == "solved, score 0.50, 2 turns, terminated"
    spans = worker.rows(
        "select name, type, content from spans where trace_id = ? order by start_time_unix_nano,"
        " end_time_unix_nano desc",
        trace_id,
    )
    assert [span[:2] for span in spans] == [
        ("train: GoToLocal", "AGENT"),
        ("turn 1", "LLM"),
        ("turn 2", "LLM"),
    ]
    assert "You stand before it" in spans[2][2]
    assert "ünknown" in spans[2][2]
    attributes = [json.loads(content)["attributes"] for _, _, content in spans]
    root, last = (
        {name: json.loads(value) for name, value in attributes[place].items()} for place in (0, 2)
    )
    messages = root["mlflow.spanInputs"]["messages"] + root["mlflow.spanOutputs"]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 2
    assert messages[0]["content"] == "You see a red ball"
    assert root["iteration"] == 3  # equals the step of the metrics
    assert last["mlflow.spanInputs"]["messages"] == messages[2:3]  # what is new in this turn
    assert last["mlflow.spanOutputs"]["messages"] == messages[3:]
    usage = last["mlflow.chat.tokenUsage"]
    assert usage["output_tokens"] == last["sampled_tokens"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    tags = worker.rows("select key, value from trace_tags where request_id = ?", trace_id)
    assert {("category", "GoToLocal"), ("iteration", "3"), ("success", "true")} <= set(tags)


def test_spans_have_the_measured_durations_and_the_trace_the_sum_of_its_tokens(
    worker: Worker,
) -> None:
    run_id = worker.start()
    assert (
        worker.ask(Episodes(iteration=1, name="timed", time_ms=5000, episodes=(episode(),))).error
        is None
    )
    [(trace_id, took_ms)] = worker.rows(
        "select i.request_id, i.execution_time_ms from trace_info i"
        " join trace_request_metadata m on m.request_id = i.request_id"
        " where m.key = 'mlflow.sourceRun' and m.value = ?",
        run_id,
    )
    assert took_ms == 3000
    spans = worker.rows(
        "select name, start_time_unix_nano / 1000000, end_time_unix_nano / 1000000 from spans"
        " where trace_id = ?",
        trace_id,
    )
    assert {tuple(span) for span in spans} == {
        ("timed: GoToLocal", 5000, 8000),
        ("turn 1", 5500, 5750),
        ("turn 2", 6000, 8000),
    }
    # Turn 1 reads 3 tokens and samples 2; turn 2 reads 8, of which 1 was forced, and samples 1.
    counted = worker.rows(
        "select input_tokens, output_tokens, total_tokens from trace_info where request_id = ?",
        trace_id,
    )
    assert counted == [(11, 3, 14)]


def long_episode(sample: int, turns: int) -> Trajectory:
    """An episode whose observations have 8,000 characters each."""
    played = episode(sample)
    turn = replace(played.turns[0], observation="x" * 8000)
    return replace(played, turns=(turn,) * turns)


def test_a_request_has_the_spans_of_one_episode_and_its_size_is_linear_in_the_turns(
    worker: Worker,
) -> None:
    """An episode of 30 turns of 8,000 characters: they are in its root span and in the turns."""
    with mlflow_server() as server:
        assert worker.open(server.uri).error is None
        for turns in (15, 30):
            episodes = tuple(long_episode(sample, turns) for sample in range(8))
            batch = Episodes(iteration=turns, name="train", time_ms=5000, episodes=episodes)
            assert worker.ask(batch).error is None
        assert len(server.span_requests) == 16
        short, long = max(server.span_requests[:8]), max(server.span_requests[8:])
        assert 30 * 2 * 8000 < long < 520_000
        assert long < 2 * short


def test_an_episode_that_the_server_refuses_keeps_no_other_of_its_batch_from_being_recorded(
    worker: Worker,
) -> None:
    with mlflow_server() as server:
        server.largest_spans = 100_000
        assert worker.open(server.uri).error is None
        episodes = (long_episode(0, 30), long_episode(1, 2))
        reply = worker.ask(Episodes(iteration=1, name="train", time_ms=0, episodes=episodes))
        assert reply.error is not None
        assert reply.error.startswith("1 of 2 episodes: ")
        assert "413" in reply.error
        assert not reply.transient
        assert sum("/traces" in call and "POST /api" in call for call in server.calls) == 1


def test_characters_that_a_database_cannot_store_are_replaced(worker: Worker) -> None:
    run_id = worker.start()
    played = episode()
    turn = replace(played.turns[0], observation="a\x00b\ud800c", action="\udfff")
    batch = Episodes(iteration=7, name="odd", time_ms=0, episodes=(replace(played, turns=(turn,)),))
    assert worker.ask(batch).error is None
    [(preview, content)] = worker.rows(
        "select i.request_preview, s.content from trace_info i"
        " join spans s on s.trace_id = i.request_id"
        " join trace_request_metadata m on m.request_id = i.request_id"
        " where s.name = 'turn 1' and m.key = 'mlflow.sourceRun' and m.value = ?",
        run_id,
    )
    assert preview == "a\ufffdb\ufffdc"
    inputs = json.loads(json.loads(content)["attributes"]["mlflow.spanInputs"])
    assert inputs["messages"][0]["content"] == "a\x00b\ufffdc"  # JSON escapes a NUL


def test_turns_without_durations_are_shown_as_1_ms_each() -> None:
    played = episode()
    assert turn_times_ns(played) == [(500_000_000, 750_000_000), (1_000_000_000, 3_000_000_000)]
    assert turn_times_ns(played.without_times()) == [(0, 1_000_000), (1_000_000, 2_000_000)]
