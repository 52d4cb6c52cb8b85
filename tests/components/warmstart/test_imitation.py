"""Targets and batches of imitation learning."""

from itertools import chain

from relabelled_episode import episode, turn

from agentrl_components.warmstart.imitation import (
    imitation_example,
    shuffled_batches,
    within_context,
)


def test_replies_have_weight_1_and_observations_the_given_weight():
    one = imitation_example(episode((turn(3, 5), turn(7, 9))), 0.25)
    assert one.sampled.tolist() == list(range(1, 10))
    weights = [0.25, 0.25, 1, 1, 0.25, 0.25, 1, 1, 0.25]
    assert one.columns["weight"].tolist() == weights


def test_every_epoch_contains_each_example_once():
    plan = list(shuffled_batches(7, 3, 2, seed=1))
    assert [len(batch) for batch in plan] == [3, 3, 1, 3, 3, 1]
    assert sorted(chain(*plan[:3])) == sorted(chain(*plan[3:])) == list(range(7))
    assert plan[:3] != plan[3:]


def test_episodes_are_cut_to_what_a_model_can_read():
    """An episode of 10 tokens: its last reply ends at 9, so 9 of them can be learnt from."""
    one = episode((turn(3, 5), turn(7, 9)))
    assert within_context([one], 10) == [one]
    (cut,) = within_context([one], 9)
    assert [len(column) for column in (cut.ids, cut.mask, cut.logprobs)] == [9, 9, 9]
    assert cut.turns == one.turns
    assert imitation_example(cut, 0.25).columns["weight"].tolist() == [
        *(0.25, 0.25, 1, 1, 0.25, 0.25, 1, 1)
    ]
    assert within_context([one], 8) == []
