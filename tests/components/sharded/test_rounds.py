"""Distribution of packs over ranks."""

import numpy as np

from agentrl_components.sharded.rounds import deal
from agentrl_components.update.packing import Example


def example(length):
    return Example(
        ids=np.arange(length + 1, dtype=np.int32),
        sampled=np.array([length]),
        allowed=None,
        temperature=1.0,
        columns={},
    )


EXAMPLES = [example(length) for length in (90, 10, 40, 10, 35, 10)]
# With a budget of 40 tokens the packs are [90], [40], [35] and [10, 10, 10].


def lengths(share):
    return [list(pack.lengths) for pack in share.packs]


def test_packs_are_dealt_in_order_of_size():
    first, second = deal(EXAMPLES, 40, 2)
    assert lengths(first) == [[90], [35]]
    assert lengths(second) == [[40], [10, 10, 10]]
    assert first.counted == second.counted == 2


def test_packs_are_divided_until_they_fill_the_last_round():
    shares = deal(EXAMPLES, 40, 3)
    assert [lengths(share) for share in shares] == [[[90], [10]], [[40], [10]], [[35], [10]]]
    assert [share.counted for share in shares] == [2, 2, 2]


def test_every_rank_makes_the_same_number_of_passes():
    shares = deal(EXAMPLES[:4], 10, 3)
    assert [lengths(share) for share in shares] == [[[90], [10]], [[40], [10]], [[10], [10]]]
    assert [share.counted for share in shares] == [2, 1, 1]


def test_every_example_is_counted_once_for_any_number_of_ranks():
    for ranks in range(1, 8):
        shares = deal(EXAMPLES, 40, ranks)
        counted = [m for s in shares for pack in s.packs[: s.counted] for m in pack.members]
        assert sorted(counted) == list(range(6))
        assert len({len(share.packs) for share in shares}) == 1


def test_without_examples_there_are_no_passes():
    assert [share.packs for share in deal([], 40, 2)] == [(), ()]
