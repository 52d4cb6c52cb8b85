"""Policies in the store: how many are kept, and in which data type."""

from dataclasses import replace

import pytest
import torch

from agentrl_components.exchange.weight_channel import VECTOR, Published, WeightChannel
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.storage import keys
from agentrl_components.storage.open import MemoryStore

VECTOR_P = torch.linspace(-1, 1, 1000)


def published(number: int, most: int = 0) -> Published:
    window = PlayWindow(number=number, lag=min(most, number), last=number + most, max_lag=most)
    return Published(window=window, version=number + 2, phase=0, max_turns=4, finished=False)


def test_a_policy_is_read_as_it_was_published():
    channel = WeightChannel(MemoryStore())
    assert channel.newest() is None
    channel.publish(published(0), VECTOR_P)
    assert channel.newest() == channel.read(0) == published(0)
    assert torch.equal(channel.fetch(0), VECTOR_P)
    assert channel.read(1) is None


def test_policies_within_the_lag_are_kept_and_one_more():
    """With a lag of 2, iteration 6 is played by policy 4 and iteration 8 by policy 6."""
    store = MemoryStore()
    channel = WeightChannel(store)
    for number in range(7):
        channel.publish(published(number, most=2), VECTOR_P)
    assert [number for number in range(7) if channel.read(number)] == [3, 4, 5, 6]
    assert len(list(store.list(keys.POLICIES))) == 8


def test_an_existing_policy_is_not_replaced():
    channel = WeightChannel(MemoryStore())
    channel.publish(published(3), VECTOR_P)
    channel.publish(replace(published(3), max_turns=9), -VECTOR_P)
    assert channel.newest() == published(3)
    assert torch.equal(channel.fetch(3), VECTOR_P)


def test_an_older_policy_that_is_published_again_is_not_the_newest():
    channel = WeightChannel(MemoryStore())
    for number in (4, 5, 2):
        channel.publish(published(number), VECTOR_P)
    assert channel.newest() == published(5)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"phase": 1, "max_turns": 8}, True),
        ({"version": 8}, True),
        ({"finished": True}, True),
        ({"window": PlayWindow(number=5, lag=0, last=5, max_lag=1)}, True),
    ],
    ids=["equal", "another phase", "a rollback", "the end", "another lag"],
)
def test_a_policy_that_is_published_otherwise_contradicts_the_one_that_is_there(change, differs):
    channel = WeightChannel(MemoryStore())
    for number in (5, 6):
        channel.publish(published(number, most=1), VECTOR_P)
    assert channel.contradicts(replace(published(5, most=1), **change)) == differs


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({}, False),
        ({"phase": 1, "max_turns": 8}, True),
        ({"version": 5}, True),
        ({"finished": True}, True),
        ({"version": 3}, False),
    ],
    ids=["as before", "a later phase", "a rollback", "the end", "a rollback came later"],
)
def test_a_policy_that_was_deleted_as_an_old_one_is_compared_with_the_newest(change, differs):
    """Policies 5 and 6 are there, with the versions 7 and 8. Policy 2 had version 4."""
    channel = WeightChannel(MemoryStore())
    for number in range(7):
        channel.publish(published(number), VECTOR_P)
    assert channel.read(2) is None
    assert channel.contradicts(replace(published(2), **change)) == differs


def test_older_policies_contradict_nothing():
    channel = WeightChannel(MemoryStore())
    channel.publish(published(5), VECTOR_P)
    end = replace(published(6), phase=1, max_turns=8, version=9, finished=True)
    assert not channel.contradicts(end)


def test_a_policy_is_withdrawn_with_those_after_it():
    store = MemoryStore()
    channel = WeightChannel(store)
    for number in (4, 5, 6):
        channel.publish(published(number, most=2), VECTOR_P)
    channel.withdraw(5)
    assert channel.newest() == published(4, most=2)
    ended = replace(published(5, most=2), phase=1)
    channel.publish(ended, -VECTOR_P)
    assert channel.newest() == ended
    assert torch.equal(channel.fetch(5), -VECTOR_P)
    assert len(store.objects) == 4


class KilledStore(MemoryStore):
    """Its process is killed after two deletions."""

    deleted = 0

    def delete(self, key):
        if self.deleted == 2:
            raise KeyboardInterrupt
        self.deleted += 1
        super().delete(key)


def test_policies_that_are_left_when_a_withdrawal_is_interrupted_still_contradict():
    channel = WeightChannel(KilledStore())
    for number in (5, 6):
        channel.publish(published(number), VECTOR_P)
    with pytest.raises(KeyboardInterrupt):
        channel.withdraw(4)
    assert channel.newest() == published(5)
    assert channel.contradicts(replace(published(4), phase=1))


def test_all_policies_can_be_deleted():
    store = MemoryStore()
    channel = WeightChannel(store)
    channel.publish(published(3), VECTOR_P)
    channel.clear()
    assert channel.newest() is None
    assert store.objects == {}


def test_bfloat16_is_half_the_size_and_gives_the_same_module():
    store = MemoryStore()
    channel = WeightChannel(store)
    for number, dtype in enumerate((torch.float32, torch.bfloat16)):
        channel.publish(published(number), VECTOR_P.to(dtype))
    sizes = [len(store.objects[keys.policy(number, VECTOR)]) for number in (0, 1)]
    assert 1900 < sizes[0] - sizes[1] < 2100
    master = torch.zeros(1000).copy_(channel.fetch(1))
    assert torch.equal(master.bfloat16(), VECTOR_P.bfloat16())
