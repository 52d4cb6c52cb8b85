"""Imitation: which tokens are targets, and random play told as if it had been meant."""

from itertools import chain

import numpy as np
import pytest

from agentrl_components.trajectory.record import Ending, Trajectory, Turn
from agentrl_components.warmstart.hindsight import batches, cosine, imitation, in_hindsight


def turn(start, end, achieved=()):
    return Turn(
        start=start,
        end=end,
        reward=0.0,
        wellformed=True,
        action="go",
        observation="door",
        version=-1,
        achieved=achieved,
    )


def episode(turns):
    ids = np.arange(10, dtype=np.int32)
    mask = np.zeros(10, dtype=bool)
    mask[[3, 7]] = True
    return Trajectory(
        environment="corridor",
        task="t",
        category="c",
        group=0,
        sample=0,
        iteration=-1,
        ids=ids,
        mask=mask,
        logprobs=np.zeros(10, dtype=np.float32),
        allowed=None,
        turns=turns,
        ending=Ending.TRUNCATED,
        score=0.0,
        raw_score=0.0,
        success=False,
        max_turns=2,
    )


def test_replies_are_imitated_whole_and_observations_at_their_weight():
    one = imitation(episode((turn(3, 5), turn(7, 9))), 0.25)
    assert one.sampled.tolist() == list(range(1, 10))
    weights = [0.25, 0.25, 1, 1, 0.25, 0.25, 1, 1, 0.25]
    assert one.columns["weight"].tolist() == weights


def test_in_hindsight_the_goal_is_what_was_reached_and_the_episode_ends_there():
    found = in_hindsight(
        episode((turn(3, 5, ("open red door",)), turn(7, 9))), 0, lambda _, goal: [90, 91]
    )
    # The opening 0 1 2 becomes 90 91; the first reply 3 4 moves one to the left; the rest is cut.
    assert found.ids.tolist() == [90, 91, 3, 4]
    assert [(t.start, t.end) for t in found.turns] == [(2, 4)]
    assert (found.success, found.score) == (True, 1.0)


def test_an_episode_that_reached_nothing_teaches_nothing():
    assert in_hindsight(episode((turn(3, 5), turn(7, 9))), 0, lambda _, goal: [90]) is None


def test_every_example_is_in_every_epoch_once():
    plan = list(batches(7, 3, 2, seed=1))
    assert [len(batch) for batch in plan] == [3, 3, 1, 3, 3, 1]
    assert sorted(chain(*plan[:3])) == sorted(chain(*plan[3:])) == list(range(7))
    assert plan[:3] != plan[3:]


def test_the_rate_falls_to_a_tenth():
    assert cosine(0, 10, 1.0) == pytest.approx(1.0)
    assert cosine(5, 10, 1.0) == pytest.approx(0.55)
    assert cosine(10, 10, 1.0) == pytest.approx(0.1)
