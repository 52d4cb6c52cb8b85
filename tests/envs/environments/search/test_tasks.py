"""The task set of deep search."""

from __future__ import annotations

from functools import partial

import pytest

from agentrl_envs import registry
from agentrl_envs.conformance.check import check
from agentrl_envs.environments.search import SearchOptions, SearchTasks
from agentrl_envs.errors import TaskError

TERSE = {"text": "terse", "people": 240, "hops": [1, 2, 3], "heldout": 60}


@pytest.mark.parametrize("options", [{"heldout": 30}, TERSE, {"heldout": 30, "compat": "agentgym"}])
def test_the_contract_is_kept(options: dict[str, object]):
    factory = partial(registry.task_set, "search", options)
    report = check(factory(), tasks=12, factory=factory)
    assert report.passed, str(report)


def test_a_task_has_the_same_id_in_both_forms():
    terse, agentgym = (
        SearchTasks(SearchOptions.model_validate({**TERSE, "text": text}))
        for text in ("terse", "agentgym")
    )
    assert terse.task("train", 3) == agentgym.task("train", 3)


def test_more_heldout_questions_than_there_are_is_an_error_that_says_what_to_change():
    tasks = SearchTasks(SearchOptions(people=60, hops=(1,), facts=1, heldout=500))
    with pytest.raises(TaskError, match=r"search\.options\.(heldout|people): .*fewer"):
        tasks.task("heldout", 0)


def test_a_negative_index_is_an_error():
    with pytest.raises(TaskError, match="-1 is negative"):
        SearchTasks().task("train", -1)
