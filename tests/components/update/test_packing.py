"""Packs: whole episodes in a row, every one of them once, within a budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.update.packing import Example, pack, padded, plan


def example(ids, sampled, allowed=None, **columns) -> Example:
    return Example(
        ids=np.array(ids, dtype=np.int32),
        sampled=np.array(sampled),
        allowed=None
        if allowed is None
        else tuple(np.array(some, dtype=np.int32) for some in allowed),
        temperature=1.0,
        columns={name: np.array(c, dtype=np.float32) for name, c in columns.items()},
    )


def test_a_pack_ends_each_episode_before_its_last_sampled_token():
    first = example([5, 6, 7, 8, 9], [1, 3], weight=[0.1, 0.2])
    second = example([1, 2, 3], [2], weight=[0.3])
    row = pack([first, second], [1, 0])
    assert row.lengths == (2, 3)
    assert row.ids_N.tolist() == [1, 2, 5, 6, 7]
    # Token 2 of the second is predicted by row 1; tokens 1 and 3 of the first by rows 2 and 4.
    assert row.rows_S.tolist() == [1, 2, 4]
    assert row.targets_S.tolist() == [3, 6, 8]
    assert row.episode_S.tolist() == [0, 1, 1]
    assert row.columns["weight"].tolist() == pytest.approx([0.3, 0.1, 0.2])
    assert row.members == (1, 0)
    assert row.allowed_SA is None


def test_choices_are_padded_with_minus_1():
    assert padded([np.array([3, 4]), np.array([5])]).tolist() == [[3, 4], [5, -1]]


def test_an_episode_that_was_not_confined_keeps_its_place_beside_one_that_was():
    free = example([1, 2, 3], [1, 2])
    confined = example([4, 5, 6], [2], allowed=[[6, 7]])
    row = pack([free, confined], [0, 1])
    assert row.allowed_SA.tolist() == [[-1, -1], [-1, -1], [6, 7]]


def test_packs_are_divided_until_every_lane_has_work():
    # All four fit into one pack of 100 tokens, which would leave a lane without work.
    assert plan([10, 10, 10, 10], 100, 2) == [[[0, 1]], [[2, 3]]]
    assert plan([10, 10, 10, 10], 100, 1) == [[[0, 1, 2, 3]]]
    assert plan([10], 100, 2) == [[[0]], []]


def test_no_pack_is_filled_at_the_expense_of_another():
    # Filled to the budget, the packs would have 40 and 10 tokens.
    assert plan([10] * 5, 40, 2) == [[[0, 1, 2]], [[3, 4]]]
    # With the long one, the budget allows two others, which would be 50 and 30 tokens.
    assert plan([10, 30, 10, 10, 10, 10], 90, 2) == [[[1, 0]], [[2, 3, 4, 5]]]


@given(
    st.lists(st.integers(1, 90), max_size=40),
    st.integers(1, 200),
    st.integers(1, 4),
)
def test_a_plan_holds_every_episode_once_and_keeps_to_its_budget(lengths, budget, lanes):
    lanes_of = plan(lengths, budget, lanes)
    assert len(lanes_of) == lanes
    packs = [members for lane in lanes_of for members in lane]
    assert sorted(i for members in packs for i in members) == list(range(len(lengths)))
    for members in packs:
        longest = max(lengths[i] for i in members)
        assert len(members) * longest <= budget or len(members) == 1


@given(st.lists(st.integers(1, 90), min_size=4, max_size=40), st.integers(1, 4))
def test_where_the_budget_does_not_matter_a_lane_has_at_most_an_episode_too_much(lengths, lanes):
    packs = plan(lengths, 10_000, lanes)
    assert all(len(lane) <= 1 for lane in packs)
    loads = [sum(lengths[i] for members in lane for i in members) for lane in packs]
    assert max(loads) <= sum(lengths) / lanes + max(lengths)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40), st.randoms())
def test_a_plan_depends_on_lengths_alone(lengths, draw):
    order = list(range(len(lengths)))
    draw.shuffle(order)
    again = plan([lengths[i] for i in order], 100, 2)
    shapes = [
        sorted(sorted(lengths[i] for i in members) for lane in lanes for members in lane)
        for lanes in (
            plan(lengths, 100, 2),
            [[[order[i] for i in m] for m in lane] for lane in again],
        )
    ]
    assert shapes[0] == shapes[1]
