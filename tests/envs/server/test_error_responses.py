"""Status codes and error bodies of an environment server."""

import pytest
from corridor_http import error_of, opened, served, stepped
from pydantic import SecretStr


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
def test_malformed_body_is_refused_and_keeps_the_session(body, status, field):
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


def test_content_type_other_than_json_is_refused():
    with served() as http:
        answer = http.post("/v1/sessions", content="{}", headers={"content-type": "text/plain"})
        assert error_of(answer) == (415, "invalid")


@pytest.mark.parametrize("digits", [17, 4300, 4301, 5000, 20_000])
def test_query_parameter_with_thousands_of_digits_is_a_bad_request(digits):
    """Regression: `int()` raises ValueError beyond 4,300 digits, which gave a 500."""
    with served() as http:
        for name in ("start", "count"):
            answer = http.get("/v1/tasks/train", params={name: "9" * digits})
            assert error_of(answer) == (400, "invalid")
            assert answer.json()["error"]["field"] == name


@pytest.mark.parametrize("digits", [30, 4000, 5000])
def test_huge_number_in_a_body_is_a_client_error(digits):
    huge = "9" * digits
    payload = f'{{"cells": {huge}, "start": 0, "side": "left", "colour": "red"}}'
    body = f'{{"task": {{"id": "x", "category": "x", "payload": {payload}}}, "key": "k"}}'
    headers = {"content-type": "application/json"}
    with served() as http:
        assert http.post("/v1/sessions", content=body, headers=headers).status_code in (400, 422)
        session = opened(http).json()["id"]
        step = f'{{"n": {huge}, "action": "left"}}'
        answer = http.post(f"/v1/sessions/{session}/steps", content=step, headers=headers)
        assert answer.status_code in (400, 409, 422)


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer"])
def test_authorization_scheme_is_case_insensitive(scheme):
    """RFC 9110, section 11.1. Regression: `bearer` in lower case was refused."""
    with served(token=SecretStr("sesame")) as http:
        answer = http.get("/v1/environment", headers={"authorization": f"{scheme} sesame"})
        assert answer.status_code == 200
        for wrong in (f"{scheme}sesame", f"{scheme}", f"{scheme} Sesame", "basic sesame"):
            answer = http.get("/v1/environment", headers={"authorization": wrong})
            assert error_of(answer) == (401, "unauthorized")


def test_unknown_routes_methods_and_splits_have_typed_errors():
    with served() as http:
        assert error_of(http.get("/v2/nothing")) == (404, "not_found")
        assert error_of(http.put("/v1/sessions")) == (405, "not_found")
        assert error_of(http.get("/v1/tasks/test")) == (404, "not_found")
        assert error_of(http.get("/v1/tasks/train?start=-1")) == (400, "invalid")
        assert error_of(http.get("/v1/tasks/train?count=1001")) == (400, "invalid")


def test_all_endpoints_but_probes_and_metrics_require_the_token():
    with served(token=SecretStr("sesame")) as http:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert http.get(path).status_code in (200, 503)
        assert error_of(http.get("/v1/environment")) == (401, "unauthorized")
        for given in ("Bearer wrong", "sesame", "Bearer sesame2", "bearer sesamé".encode()):
            wrong = http.get("/v1/environment", headers={"authorization": given})
            assert error_of(wrong) == (401, "unauthorized")
        right = http.get("/v1/environment", headers={"authorization": "Bearer sesame"})
        assert right.status_code == 200


def test_host_header_must_be_loopback_without_a_token():
    with served() as http:
        rebound = http.get("/v1/environment", headers={"host": "evil.example"})
        assert rebound.status_code == 400


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
def test_batched_requests_are_validated_and_limited_in_size(path, body, field):
    with served() as http:
        answer = http.post(path, json=body)
        assert error_of(answer) == (422, "invalid")
        assert answer.json()["error"]["field"] == field


def test_relabel_is_refused_if_the_task_set_does_not_support_it():
    with served() as http:
        assert http.get("/v1/environment").json()["relabels"] is False
        answer = http.post("/v1/relabel", json={"openings": [{"observation": "o", "goal": "g"}]})
        assert error_of(answer) == (422, "task")
