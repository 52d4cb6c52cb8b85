"""Options that do not fit together are refused with the field, the reason and the fix."""

from __future__ import annotations

from typing import Any

import pytest

from agentrl_envs import registry

FILE = {"dataset": "nq", "path": "nq.jsonl", "split": "train"}
R1 = {"kind": "search-r1", "url": "http://retriever:8000/retrieve"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hops": [1, 1]}, "hops: each of 1 to 4 at most once"),
        ({"people": 50}, "people: questions of 4 hops need at least 60; got 50"),
        ({"text": "terse", "compat": "agentgym"}, "use text agentgym"),
        ({"items": [1]}, "items: AgentGym's ids are rows of files"),
        ({"questions": [FILE]}, "corpus: the questions are about none"),
        ({"corpus": ["a.jsonl"]}, "questions: there are none about this corpus"),
        ({"retriever": R1}, "questions: there are none about this corpus"),
        ({"questions": [FILE], "retriever": R1, "text": "terse"}, "terse has words for the gen"),
        ({"retriever": {"kind": "bm25", "url": "http://x"}}, "belong to a service; set kind"),
        ({"retriever": {"kind": "search-r1"}}, "search-r1 needs the http"),
        ({"retriever": {"kind": "web", "url": "ftp://x/{query}"}}, "web needs the http"),
        ({"retriever": {"kind": "web", "url": "https://x/search"}}, "write {query} there"),
        ({"retriever": {"kind": "web", "url": "https://{query}.x/?q={query}"}}, "host is fixed"),
        ({"retriever": {"kind": "web", "url": "https://x/?q={query}&k={key}"}}, "key_env: url has"),
        ({"retriever": {**R1, "url": "http://me:secret@retriever/"}}, "holds a password"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str):
    (error,) = registry.option_errors("search", options)
    assert message in error


def test_a_key_comes_from_a_variable_for_searches_only():
    """Other secrets of the process, such as those of the object store, cannot be sent."""
    given = {"retriever": {**R1, "key_env": "AWS_SECRET_ACCESS_KEY"}}
    (error,) = registry.option_errors("search", given)
    assert error.startswith("retriever.key_env: ")
