"""Sets of actions are kept up to a number of tokens."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from agentrl_components.engines.action_cache import ActionCache

STOP = 2
SMALL, OTHER, LARGE = ((7,), (8, 9)), ((7, 8),), ((7, 8, 9, 10), (11, 12, 13))
"""Sets of 5, 3 and 9 tokens with stop tokens."""


class Counted:
    """A function that keeps the sets that it was called with."""

    def __init__(self):
        self.made = []

    def __call__(self, actions, stop):
        self.made.append(actions)
        return sum(map(sum, actions)) + stop


def test_a_set_that_comes_again_is_not_computed_again():
    made = Counted()
    cached = ActionCache(made, limit=8)
    assert [cached(actions, STOP) for actions in (SMALL, OTHER, SMALL)] == [26, 17, 26]
    assert made.made == [SMALL, OTHER]
    assert cached(SMALL, 3) == 27


def test_the_sets_that_were_used_longest_ago_make_room():
    made = Counted()
    cached = ActionCache(made, limit=13)
    for actions in (SMALL, OTHER, SMALL):  # 8 tokens
        cached(actions, STOP)
    cached(LARGE, STOP)  # 17 tokens: 14 without the other one, and 9 without the small one
    cached(OTHER, STOP)  # 12
    cached(LARGE, STOP)
    assert made.made == [SMALL, OTHER, LARGE, OTHER]
    cached(SMALL, STOP)  # 17: 14 without the other one, and 5 without the large one
    cached(SMALL, STOP)
    assert made.made == [SMALL, OTHER, LARGE, OTHER, SMALL]


def test_a_set_with_more_tokens_than_the_limit_is_kept_until_the_next_one():
    made = Counted()
    cached = ActionCache(made, limit=4)
    for actions in (LARGE, LARGE, SMALL, LARGE):
        cached(actions, STOP)
    assert made.made == [LARGE, SMALL, LARGE]


def test_a_set_that_cannot_be_used_is_not_kept():
    def refuse(actions, stop):
        raise ValueError("no action")

    cached = ActionCache(refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="no action"):
            cached((), STOP)


def test_two_threads_that_need_the_same_set_at_once_keep_it_once():
    """The event loop and vLLM's thread."""
    both = Barrier(2, timeout=60)

    def made(actions, stop):
        both.wait()  # each has found that the set is not there
        return sum(map(sum, actions)) + stop

    cached = ActionCache(made)
    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(lambda _: cached(SMALL, STOP), range(2)))
    assert found == [26, 26]
    assert cached.tokens == 5
    assert cached(SMALL, STOP) == 26
