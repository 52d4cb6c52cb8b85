"""Exact match and F1, by hand."""

import pytest

from agentrl_envs.environments.search.scoring import exact_match, f1, normalise


def test_normalisation_drops_case_punctuation_articles_and_repeated_space():
    assert normalise("The  U.S.A., a Nation!") == "usa nation"
    assert normalise("Theodore and Ann") == "theodore and ann"


def test_an_answer_matches_any_of_those_accepted():
    assert exact_match("the Beatles.", ["Rolling Stones", "Beatles"]) == 1
    assert exact_match("Beatles band", ["Beatles"]) == 0


@pytest.mark.parametrize(
    ("answer", "accepted", "expected"),
    [
        ("Barack Obama", ["Barack Hussein Obama"], 2 * 2 / (2 + 3)),  # precision 1, recall 2/3
        ("Obama Obama", ["Obama"], 2 * 1 / (2 + 1)),  # a repeated word counts once
        ("Paris", ["London", "Paris France"], 2 * 1 / (1 + 2)),  # the better of the two
        ("Rome", ["London"], 0.0),
        ("", ["London"], 0.0),
        ("the", ["a"], 1.0),  # both are empty after normalisation, as in SQuAD
    ],
)
def test_f1_counts_common_words(answer: str, accepted: list[str], expected: float):
    assert f1(answer, accepted) == pytest.approx(expected)
