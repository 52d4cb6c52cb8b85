"""A query that the service refuses costs the agent a turn, and no session is lost."""

import json

import pytest

from agentrl_envs import registry
from agentrl_envs.environments.search.environment import REFUSED
from agentrl_envs.environments.search.options import RetrieverOptions
from agentrl_envs.environments.search.retrieval.http import MAX_REFUSED, Service
from agentrl_envs.environments.search.retrieval.retriever import QueryError
from agentrl_envs.errors import SessionError

R1 = {"result": [[{"document": {"contents": "Paris\nParis is the capital of France."}}]]}


def test_a_refused_query_is_a_reply_that_is_not_well_formed_and_the_episode_goes_on(
    service, tmp_path
):
    """Regression: the session was lost."""
    files = []
    for split in ("train", "heldout"):
        path = tmp_path / f"{split}.jsonl"
        path.write_text(json.dumps({"question": f"{split}?", "golden_answers": ["Paris"]}))
        files.append({"dataset": "nq", "path": str(path), "split": split})
    retriever = {"kind": "search-r1", "url": f"{service.url}/retrieve"}
    options = {"questions": files, "retriever": retriever, "turn_limit": 4}
    tasks = registry.task_set("search", options)
    service.answers = [(200, R1), (422, {}), (200, R1)]
    session = tasks.environment()
    session.reset(tasks.task("train", 0))
    first = session.step("<search>capital of France</search>")
    assert first.wellformed
    refused = session.step(f"<search>{'capital ' * 2000}</search>")
    assert (refused.wellformed, refused.observation.text) == (False, REFUSED)
    assert (refused.reward, refused.terminated, refused.truncated) == (0.0, False, False)
    assert refused.state == first.state
    assert session.step("<search>France</search>").observation.text == first.observation.text
    solved = session.step("<answer>Paris</answer>")
    assert (solved.reward, solved.success) == (1.0, True)


def test_a_service_that_refuses_all_queries_is_down(service):
    """A key or a plan may have ended: otherwise the run would go on with turns that found
    nothing."""
    options = RetrieverOptions(kind="search-r1", url=f"{service.url}/retrieve")
    searched = Service(options, key="")
    refusals = [(422, {})] * MAX_REFUSED
    service.answers = [(200, R1), *refusals, (200, R1), *refusals, (422, {})]
    for _ in range(2):
        searched.post(options.url, {})
        for _ in range(MAX_REFUSED):
            with pytest.raises(QueryError):
                searched.post(options.url, {})
    with pytest.raises(SessionError, match=r"status 422 for 21 queries in a row; .* the key"):
        searched.post(options.url, {})
