from __future__ import annotations

import pytest

from agentrl_envs.environments.web_sites.sessions import LostStateError, Sessions
from agentrl_envs.environments.web_sites.state import seeded


def test_a_session_that_changed_nothing_reads_the_seeded_state():
    sessions = Sessions()
    assert sessions.read(None, 0) is seeded(0)
    assert sessions.read(None, 1) is seeded(1)


def test_a_change_is_seen_by_its_session_only():
    sessions = Sessions()
    one, state = sessions.write(None, 0)
    state.shop.cart["pan"] = 1
    two, other = sessions.write(None, 0)
    assert one != two
    assert sessions.read(one, 0).shop.cart == {"pan": 1}
    assert other.shop.cart == seeded(0).shop.cart == {}


def test_the_state_that_was_unused_for_longest_is_dropped():
    sessions = Sessions(capacity=2)
    first, _ = sessions.write(None, 0)
    second, _ = sessions.write(None, 0)
    sessions.read(first, 0)
    sessions.write(None, 0)
    sessions.read(first, 0)
    with pytest.raises(LostStateError):
        sessions.write(second, 0)


def test_a_seed_gives_the_same_content_and_another_seed_other_content():
    assert seeded(1).shop.products.keys() == seeded.__wrapped__(1).shop.products.keys()
    assert seeded(1).shop.products.keys() != seeded(2).shop.products.keys()
