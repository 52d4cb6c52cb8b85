from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.engines.action_trie import Trie, chooses, trie_of

STOP = 2


def test_allowed_tokens_are_those_with_which_an_action_continues() -> None:
    trie = Trie([(7, 9), (7, 8), (5, 6)], STOP)
    assert trie.allowed(trie.root) == (5, 7)
    assert trie.allowed(trie.at((7,))) == (8, 9)
    assert trie.allowed(trie.at((7, 8))) == (STOP,)
    assert trie.allowed(trie.at((7, 8, STOP))) == ()


def test_tokens_are_forced_up_to_the_next_choice() -> None:
    trie = Trie([(7, 8, 3), (7, 8, 4, 5)], STOP)
    assert trie.forced(trie.root) == (7, 8)
    assert trie.forced(trie.at((7, 8))) == ()
    assert trie.forced(trie.at((7, 8, 4))) == (5, STOP)


def test_a_single_action_is_forced_with_its_stop_token() -> None:
    trie = Trie([(7, 8)], STOP)
    assert trie.forced(trie.root) == (7, 8, STOP)


def test_the_stop_token_is_allowed_after_an_action_that_is_a_prefix() -> None:
    trie = Trie([(7,), (7, 8)], STOP)
    assert trie.forced(trie.root) == (7,)
    assert trie.allowed(trie.at((7,))) == (STOP, 8)


def test_duplicate_actions_are_merged() -> None:
    trie = Trie([(7, 8), (7, 8)], STOP)
    assert trie.forced(trie.root) == (7, 8, STOP)


def test_the_error_for_an_inadmissible_token_lists_the_allowed_ones() -> None:
    trie = Trie([(7, 8), (7, 9)], STOP)
    with pytest.raises(ValueError, match=r"token 4 is not admissible here; allowed: \(8, 9\)"):
        trie.at((7, 4))


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ((), "at least one action"),
        (((7,), ()), "at least one token"),
        (((7, STOP),), "holds the stop token 2"),
    ],
)
def test_invalid_admissible_sets_are_rejected(
    actions: tuple[tuple[int, ...], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Trie(actions, STOP)


def test_tries_are_cached() -> None:
    assert trie_of(((7, 8), (9,)), STOP) is trie_of(((7, 8), (9,)), STOP)


ACTIONS = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=4).map(tuple), min_size=1, max_size=8
)


@given(ACTIONS)
def test_the_paths_of_the_trie_are_exactly_the_actions(
    actions: list[tuple[int, ...]],
) -> None:
    trie = Trie(actions, STOP)
    found = set()
    paths: list[tuple[int, ...]] = [()]
    while paths:
        path = paths.pop()
        following = trie.allowed(trie.at(path))
        paths += [(*path, token) for token in following]
        if not following:
            found.add(path)
    assert found == {(*action, STOP) for action in actions}


def test_the_choice_depth_is_the_number_of_tokens_up_to_the_last_choice() -> None:
    assert Trie([(7, 8)], 2).choice_depth == 0
    assert Trie([(7, 8), (7, 9)], 2).choice_depth == 2
    assert Trie([(7, 8, 3), (7, 9, 4), (5, 6)], 2).choice_depth == 2
    assert Trie([(7,), (7, 8, 9)], 2).choice_depth == 2  # the stop token, or 8
    assert Trie([(7, 8), (7, 8)], 2).choice_depth == 0


def test_a_choice_lies_ahead_until_the_rest_is_forced() -> None:
    trie = Trie([(7, 8, 3), (7, 8, 4)], 2)
    assert chooses(trie.root)
    assert not chooses(trie.at((7, 8, 3)))
