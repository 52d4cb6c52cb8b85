"""The generated corpus: its answers are found by a chain of searches, and by nothing shorter."""

from __future__ import annotations

from itertools import combinations

import pytest

from agentrl_envs.env import Task
from agentrl_envs.environments.search import SearchOptions, SearchTasks
from agentrl_envs.environments.search.facts import RELATIONS, describe, fact_world
from agentrl_envs.environments.search.retrieval.bm25 import in_memory

WORLD = fact_world(0, 400, 3)
RETRIEVER = in_memory(WORLD.documents)
TOP_K = 3
TASKS = SearchTasks(SearchOptions(heldout=60))
HELDOUT = [TASKS.task("heldout", index) for index in range(60)]


def chain_of(task: Task) -> list[tuple[str, str]]:
    """Each person of the chain but the last, with the text of the fact that leads on."""
    at, *relations = task.payload["chain"]
    chain = []
    for relation in relations:
        to = WORLD.links[at][relation]
        chain.append((at, f"The {relation} of {at} is {to}."))
        at = to
    return chain


def shortest_chain(start: str, end: str) -> int:
    """The fewest documents that lead from one name to another by names in common."""
    pairs = [(each.title, each.text.split()[-1].strip(".")) for each in WORLD.documents]
    seen, steps = {start}, 0
    while end not in seen:
        seen |= {name for pair in pairs if seen & {*pair} for name in pair}
        steps += 1
    return steps


def test_there_are_questions_of_one_to_four_hops_in_equal_shares():
    assert [task.category for task in HELDOUT[:4]] == ["1 hop", "2 hops", "3 hops", "4 hops"]


@pytest.mark.parametrize("task", HELDOUT, ids=lambda task: f"{task.category} {task.id[-4:]}")
def test_as_many_documents_as_hops_are_needed_to_link_question_and_answer(task: Task):
    start, *relations = task.payload["chain"]
    assert shortest_chain(start, task.payload["answers"][0]) == len(relations)


@pytest.mark.parametrize("task", HELDOUT, ids=lambda task: f"{task.category} {task.id[-4:]}")
def test_no_search_returns_two_links_that_were_not_known(task: Task):
    """Whatever words are put together of the question and of the people found so far: the next link
    may be found, the one after it has a name that nobody knows yet. So each link takes a search."""
    relations = set(task.payload["chain"][1:])
    names: list[str] = []
    for known, (name, _) in enumerate(chain_of(task)):
        names.append(name)
        missing = {text for _, text in chain_of(task)[known:]}
        words = sorted(relations | set(names))
        for size in range(1, len(words) + 1):
            for query in combinations(words, size):
                found = {each.text for each in RETRIEVER.search(" ".join(query), TOP_K)}
                assert len(found & missing) < 2, query


@pytest.mark.parametrize("task", HELDOUT, ids=lambda task: f"{task.category} {task.id[-4:]}")
def test_a_search_for_each_link_finds_the_answer_in_as_many_searches_as_hops(task: Task):
    for (name, link), relation in zip(chain_of(task), task.payload["chain"][1:], strict=True):
        assert RETRIEVER.search(f"{relation} of {name}", TOP_K)[0].text == link
    assert chain_of(task)[-1][1].endswith(f" is {task.payload['answers'][0]}.")


def test_a_world_is_a_function_of_its_seed_and_size():
    assert fact_world(1, 100, 2).documents == fact_world.__wrapped__(1, 100, 2).documents
    assert fact_world(1, 100, 2).links != fact_world(2, 100, 2).links
    assert fact_world(1, 100, 2).names == fact_world(2, 100, 2).names
    assert len(fact_world(1, 100, 2).documents) == 200


def test_names_are_single_words_of_their_own():
    names = fact_world(0, 3000, 1).names
    assert len(set(names)) == 3000
    assert not {name.lower() for name in names} & set(RELATIONS)


def test_a_chain_is_described_from_its_end():
    assert describe("Mavelin", ("rival", "mentor")) == "the mentor of the rival of Mavelin"
