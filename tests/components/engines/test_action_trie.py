from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.engines.action_trie import Trie, trie_of

STOP = 2


def test_a_token_is_allowed_where_some_action_goes_on_with_it() -> None:
    trie = Trie([(7, 9), (7, 8), (5, 6)], STOP)
    assert trie.allowed(trie.root) == (5, 7)
    assert trie.allowed(trie.at((7,))) == (8, 9)
    assert trie.allowed(trie.at((7, 8))) == (STOP,)
    assert trie.allowed(trie.at((7, 8, STOP))) == ()


def test_tokens_without_a_choice_are_forced_to_the_next_choice() -> None:
    trie = Trie([(7, 8, 3), (7, 8, 4, 5)], STOP)
    assert trie.forced(trie.root) == (7, 8)
    assert trie.forced(trie.at((7, 8))) == ()
    assert trie.forced(trie.at((7, 8, 4))) == (5, STOP)


def test_a_single_action_is_forced_whole_with_its_stop_token() -> None:
    trie = Trie([(7, 8)], STOP)
    assert trie.forced(trie.root) == (7, 8, STOP)


def test_stopping_is_a_choice_where_one_action_begins_another() -> None:
    trie = Trie([(7,), (7, 8)], STOP)
    assert trie.forced(trie.root) == (7,)
    assert trie.allowed(trie.at((7,))) == (STOP, 8)


def test_a_repeated_action_is_one_action() -> None:
    trie = Trie([(7, 8), (7, 8)], STOP)
    assert trie.forced(trie.root) == (7, 8, STOP)


def test_a_token_off_the_tree_is_refused_with_what_is_allowed() -> None:
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
def test_invalid_admissible_sets_are_refused(
    actions: tuple[tuple[int, ...], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        Trie(actions, STOP)


def test_the_trie_of_a_set_is_made_once() -> None:
    assert trie_of(((7, 8), (9,)), STOP) is trie_of(((7, 8), (9,)), STOP)


ACTIONS = st.lists(
    st.lists(st.integers(3, 6), min_size=1, max_size=4).map(tuple), min_size=1, max_size=8
)


@given(ACTIONS)
def test_walking_the_trie_spells_the_actions_and_nothing_else(
    actions: list[tuple[int, ...]],
) -> None:
    trie = Trie(actions, STOP)
    spelled = set()
    paths: list[tuple[int, ...]] = [()]
    while paths:
        path = paths.pop()
        following = trie.allowed(trie.at(path))
        paths += [(*path, token) for token in following]
        if not following:
            spelled.add(path)
    assert spelled == {(*action, STOP) for action in actions}
