"""BM25 by hand, and the order of equal scores."""

from __future__ import annotations

import math

import pytest

from agentrl_envs.environments.search.retrieval.bm25 import K1, B, build, in_memory, words
from agentrl_envs.environments.search.retrieval.cache import CachedRetriever
from agentrl_envs.environments.search.retrieval.retriever import Document


def documents(*texts: str) -> list[Document]:
    return [Document(title="", text=text) for text in texts]


def test_scores_are_bm25s_by_hand():
    """idf = ln(1 + (N - n + 0.5) / (n + 0.5)); tf / (tf + k1 (1 - b + b L / mean L))."""
    index = build(["red red fox", "red hen", "blue hen", "green cow"])
    mean = (3 + 2 + 2 + 2) / 4
    idf = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    expected = [
        idf * 2 / (2 + K1 * (1 - B + B * 3 / mean)),
        idf * 1 / (1 + K1 * (1 - B + B * 2 / mean)),
        0.0,
        0.0,
    ]
    assert index.get_scores(["red"]).tolist() == pytest.approx(expected, rel=1e-6)


def test_equal_scores_are_in_the_order_of_the_corpus():
    found = in_memory(documents(*["hen fox", "cow"] * 20)).search("hen", 30)
    assert [each.text for each in found] == ["hen fox"] * 20


def test_at_most_as_many_as_asked_for_best_first():
    retriever = in_memory(documents("cow", "hen cow", "hen hen hen"))
    assert [each.text for each in retriever.search("hen", 1)] == ["hen hen hen"]
    assert [each.text for each in retriever.search("hen", 5)] == ["hen hen hen", "hen cow"]


@pytest.mark.parametrize("query", ["", "the of a", "zebra", "? !"])
def test_a_query_without_a_known_word_finds_nothing(query: str):
    assert in_memory(documents("the cow", "hen")).search(query, 3) == ()


def test_words_are_lower_case_without_stop_words():
    assert words(["The Capital of France, 1789!"]) == [["capital", "france", "1789"]]


def test_equal_queries_are_searched_once():
    class Counting:
        calls = 0

        def search(self, query: str, count: int) -> tuple[Document, ...]:
            self.calls += 1
            return ()

    counting = Counting()
    cached = CachedRetriever(counting, 2)
    for query in ("a b", " a  b ", "c", "a b"):
        cached.search(query, 3)
    assert counting.calls == 2
