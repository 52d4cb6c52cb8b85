"""The judge model at an endpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
from http_server import serving

from agentrl_envs.environments.web import options
from agentrl_envs.environments.web.judge import ModelJudge
from agentrl_envs.errors import SessionError, TaskError


@contextmanager
def endpoint(
    *verdicts: str | None, unknown: tuple[str, ...] = ()
) -> Iterator[tuple[ModelJudge, list[str]]]:
    """A judge at an endpoint that gives these verdicts, and the questions that it was asked. Its
    model does not have the parameters `unknown`."""
    questions: list[str] = []
    left = iter(verdicts)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            questions.append(body["messages"][0]["content"])
            refused = next((name for name in unknown if name in body), None)
            if refused is None:
                answer = {"choices": [{"message": {"content": next(left)}}]}
            else:
                answer = {"error": {"message": f"Unsupported parameter: '{refused}' is not ..."}}
            self.send_response(200 if refused is None else 400)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None: ...

    with serving(Handler) as url:
        yield ModelJudge(options.Judge(url=f"{url}/v1", model="judge"), retries=0), questions


async def test_two_answers_are_compared():
    with endpoint("Same.", "different") as (judge, questions):
        assert await judge.means_the_same("how much?", "$12", "twelve dollars")
        assert not await judge.means_the_same("how much?", "$12", "ten dollars")
    assert "Reference answer: $12\nGiven answer: twelve dollars" in questions[0]


async def test_an_answer_is_compared_with_the_reason_for_which_a_task_cannot_be_done():
    with endpoint("same", "different") as (judge, questions):
        assert await judge.gives_the_reason("buy a mug", "no mug is left", "sold out")
        assert not await judge.gives_the_reason("buy a mug", "no mug is left", "done")
    assert "Known reason: no mug is left\nGiven answer: sold out" in questions[0]


@pytest.mark.parametrize(
    ("verdict", "same"),
    [
        ("**Same**, because both say twelve.", True),
        ('"same"', True),
        ("Different: the currency is missing.", False),
        ("<think>\nDifferent words, but ...\n</think>\n\nsame", True),
        ("Is it the same? ... no.</think> different", False),
    ],
)
async def test_the_first_word_after_the_thoughts_is_the_verdict(verdict, same):
    with endpoint(verdict) as (judge, _):
        assert await judge.means_the_same("how much?", "$12", "twelve dollars") is same


@pytest.mark.parametrize("verdict", [None, "", "<think>\nOkay, the same", "maybe", "not the same"])
async def test_a_reply_without_a_verdict_loses_the_session_and_is_no_score(verdict):
    with (
        endpoint(verdict) as (judge, _),
        pytest.raises(SessionError, match=r"judge http://127.*judge\.max_tokens") as raised,
    ):
        await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert repr(verdict) in str(raised.value)


async def test_a_judge_that_thinks_gets_no_parameter_that_it_does_not_have():
    with endpoint("same", "different", unknown=("temperature", "max_tokens")) as (judge, asked):
        assert await judge.means_the_same("how much?", "$12", "twelve dollars")
        assert len(asked) == 3
        assert not await judge.means_the_same("how much?", "$12", "ten dollars")
        assert len(asked) == 4


async def test_a_judge_without_any_name_for_the_limit_loses_the_session():
    with (
        endpoint(unknown=("max_tokens", "max_completion_tokens")) as (judge, asked),
        pytest.raises(SessionError, match="'max_completion_tokens' is not"),
    ):
        await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert len(asked) == 2


async def test_an_endpoint_that_does_not_answer_loses_the_session():
    with endpoint() as (judge, _):
        pass
    with pytest.raises(SessionError, match="judge http://127"):
        await judge.means_the_same("how much?", "$12", "twelve dollars")


async def test_an_answer_that_is_no_completion_loses_the_session():
    with (
        endpoint_of_statuses() as (judge, _),
        pytest.raises(SessionError, match=r"judge .*: the answer is no chat completion"),
    ):
        await judge.means_the_same("how much?", "$12", "twelve dollars")


async def test_a_question_is_asked_again_after_an_error_that_may_pass(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    with endpoint_of_statuses(429, 503, 200) as (judge, given):
        assert await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert len(given) == 3


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_key_or_model_is_an_error_of_the_options_and_asked_once(
    status, monkeypatch
):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    with (
        endpoint_of_statuses(status) as (judge, given),
        pytest.raises(TaskError, match=r"^judge\.url: .* refused model 'judge': ") as raised,
    ):
        await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert len(given) == 1
    assert "sesame" not in str(raised.value)


@contextmanager
def endpoint_of_statuses(*statuses: int) -> Iterator[tuple[ModelJudge, list[str | None]]]:
    """A judge whose API key is in the variable JUDGE_KEY, and the authorization of each request.
    Its requests have these statuses; errors repeat the key. Without any the answer is a page."""
    given: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            key = self.headers["Authorization"]
            given.append(key)
            status = statuses[len(given) - 1] if statuses else 200
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if statuses else "text/html")
            self.send_header("Retry-After-Ms", "1")
            self.end_headers()
            if not statuses:
                self.wfile.write(b"<html>Welcome</html>")
            elif status == 200:
                self.wfile.write(b'{"choices": [{"message": {"content": "same"}}]}')
            else:
                self.wfile.write(json.dumps({"error": {"message": f"bad key {key}"}}).encode())

        def log_message(self, *_: object) -> None: ...

    with serving(Handler) as url:
        judge = options.Judge(url=url, model="judge", key_env="JUDGE_KEY" if statuses else "")
        yield ModelJudge(judge), given


async def test_the_endpoint_gets_the_key_of_the_variable(monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sesame")
    with endpoint_of_statuses(200) as (judge, given):
        assert await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert given == ["Bearer sesame"]


async def test_a_key_that_is_not_set_is_an_error_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("JUDGE_KEY", raising=False)
    with (
        endpoint_of_statuses(200) as (judge, given),
        pytest.raises(TaskError, match=r"^judge\.key_env: JUDGE_KEY is not set; set the envir"),
    ):
        await judge.means_the_same("how much?", "$12", "twelve dollars")
    assert given == []
