"""HTTP retrievers: the shapes of three kinds of services, keys, retries and errors."""

from __future__ import annotations

from typing import Any

import pytest

from agentrl_envs.environments.search.options import RetrieverOptions
from agentrl_envs.environments.search.retrieval.retriever import Document, QueryError, Retriever
from agentrl_envs.environments.search.retrieval.services import open_service
from agentrl_envs.errors import OptionError, SessionError

PARIS = Document(title="Paris", text="Paris is the capital of France.")
R1 = {"result": [[{"document": {"contents": f"{PARIS.title}\n{PARIS.text}"}, "score": 3.2}]]}
KEY = "s3cr3t"


def retriever(service: Any, kind: str = "search-r1", path: str = "/retrieve", **given: Any) -> Any:
    options = {"kind": kind, "url": service.url + path, "attempts": 2, **given}
    return open_service(RetrieverOptions.model_validate(options))


def failure(found: Retriever) -> str:
    with pytest.raises(SessionError) as caught:
        found.search("capital", 3)
    return str(caught.value)


def test_search_r1_answers_its_retrieve_route(service):
    service.answers = [(200, R1)]
    assert retriever(service).search("capital of France", 3) == (PARIS,)
    (path, _, body) = service.requests[0]
    assert path == "/retrieve"
    assert body == {"queries": ["capital of France"], "topk": 3, "return_scores": True}


def test_search_r1_without_scores_answers_documents_alone(service):
    service.answers = [(200, {"result": [[{"contents": f"{PARIS.title}\n{PARIS.text}"}]]})]
    assert retriever(service).search("capital", 3) == (PARIS,)


def test_opensearch_answers_hits_of_two_fields(service):
    source = {"headline": PARIS.title, "body": PARIS.text}
    service.answers = [(200, {"hits": {"hits": [{"_id": "1", "_source": source}]}})]
    given = {"kind": "opensearch", "title": "headline", "text": "body"}
    assert retriever(service, path="/wiki/_search", **given).search("capital", 2) == (PARIS,)
    words = {"query": "capital", "fields": ["headline", "body"]}
    assert service.requests[0][2] == {"query": {"multi_match": words}, "size": 2}


def test_a_web_search_fills_a_template_and_reads_a_list(service, monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", KEY)
    result = {"name": PARIS.title, "snippet": PARIS.text, "url": "https://example.org"}
    service.answers = [(200, {"web": {"results": [result, result]}})]
    given = {"results": "web.results", "title": "name", "text": "snippet"}
    path = "/v1?q={query}&n={count}&key={key}"
    found = retriever(service, "web", path, key_env="SEARCH_API_KEY", **given)
    assert found.search("a b&n=9 {key}", 1) == (PARIS,)
    (path, headers, _) = service.requests[0]
    assert path == f"/v1?q=a%20b%26n%3D9%20%7Bkey%7D&n=1&key={KEY}"
    assert "authorization" not in headers


def test_a_key_is_sent_as_a_bearer_token_or_in_a_header_of_its_own(service, monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", KEY)
    service.answers = [(200, R1)]
    retriever(service, key_env="SEARCH_API_KEY").search("x", 1)
    retriever(service, key_env="SEARCH_API_KEY", key_header="X-Api-Key").search("x", 1)
    first, second = (headers for _, headers, _ in service.requests)
    assert first["authorization"] == f"Bearer {KEY}"
    assert second["x-api-key"] == KEY
    assert "authorization" not in second


def test_a_key_that_is_not_set_is_named_with_the_fix():
    options = RetrieverOptions(kind="search-r1", url="http://x/", key_env="SEARCH_MISSING_KEY")
    with pytest.raises(OptionError, match=r"SEARCH_MISSING_KEY is not set.*secretEnv"):
        open_service(options)


def test_a_key_is_not_sent_to_where_a_service_redirects(service, monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", KEY)
    service.answers = [(302, {})]
    service.headers = {"location": f"{service.url}/elsewhere"}
    message = failure(retriever(service, key_env="SEARCH_API_KEY"))
    assert "status 302: it redirects" in message
    assert len(service.requests) == 1


def test_a_service_that_recovers_is_asked_again(service):
    service.answers = [(503, {}), (200, R1)]
    assert retriever(service).search("capital", 3) == (PARIS,)


def test_a_service_that_stays_at_500_loses_the_session_and_is_named(service):
    service.answers = [(500, "oops")]
    assert failure(retriever(service)) == (
        f"search retriever {service.url}/retrieve: status 500 after 2 attempts; look at its log"
    )
    assert len(service.requests) == 2


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (401, {}, "status 401; check the key in SEARCH_API_KEY"),
        (404, {}, "status 404; check search.options.retriever.url"),
        (429, {}, "status 429 after 2 attempts; look at its log, or lower per_second"),
        (200, "<html>", "the answer is no JSON; check search.options.retriever.url"),
        (200, {"hits": []}, r"the answer has no result[0][i].document.contents; check"),
        (200, [], "the answer has no result[0][i]"),
    ],
)
def test_errors_name_the_service_and_the_fix_and_never_the_key(
    service, monkeypatch, status: int, answer: Any, message: str
):
    monkeypatch.setenv("SEARCH_API_KEY", KEY)
    service.answers = [(status, answer)]
    found = failure(retriever(service, key_env="SEARCH_API_KEY"))
    assert message in found
    assert f"{service.url}/retrieve" in found
    assert KEY not in found


def test_a_key_in_the_address_is_in_no_error(service, monkeypatch):
    monkeypatch.setenv("SEARCH_API_KEY", KEY)
    service.answers = [(500, {})]
    found = failure(retriever(service, "web", "/{key}/s?q={query}", key_env="SEARCH_API_KEY"))
    assert f"{service.url}/: status 500" in found
    assert KEY not in found


def test_a_service_that_is_not_there_is_named():
    options = RetrieverOptions(kind="search-r1", url="http://127.0.0.1:9/retrieve", attempts=1)
    message = failure(open_service(options))
    assert "http://127.0.0.1:9/retrieve: no answer (ConnectError); check that it runs" in message


@pytest.mark.parametrize("status", [400, 413, 414, 422])
def test_a_query_that_a_service_refuses_after_another_is_not_an_error_of_its_address(
    service, status: int
):
    """Regression: each session was lost in which the agent sent such a query."""
    service.answers = [(status, {}), (200, R1), (status, {}), (404, {})]
    found = retriever(service)
    assert f"status {status}; check search.options.retriever.url" in failure(found)
    assert found.search("capital", 3) == (PARIS,)
    with pytest.raises(QueryError, match=f"status {status}"):
        found.search("", 3)
    assert "status 404; check search.options.retriever.url" in failure(found)


def test_a_query_for_which_no_address_is_long_enough_is_refused(service):
    """Regression: the run ended."""
    service.answers = [(200, {"results": [{"title": PARIS.title, "text": PARIS.text}]})]
    given = {"results": "results", "title": "title", "text": "text"}
    found = retriever(service, "web", "/?q={query}", **given)
    with pytest.raises(SessionError, match=r"URL too long; check search\.options\.retriever\.url"):
        found.search("x" * 70_000, 3)
    assert found.search("capital", 3) == (PARIS,)
    with pytest.raises(QueryError, match="URL too long"):
        found.search("x" * 70_000, 3)


def test_half_of_a_surrogate_pair_in_a_passage_is_replaced(service):
    """As in an extract that ends in the middle of an emoji."""
    service.answers = [(200, {"result": [[{"contents": "Paris\nis \ud83d"}]]})]
    assert retriever(service).search("capital", 3) == (Document(title="Paris", text="is ?"),)
