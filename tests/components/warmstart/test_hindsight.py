"""Hindsight relabelling of episodes of the random policy."""

from relabelled_episode import episode, turn

from agentrl_components.warmstart.hindsight import hindsight_episode


def test_the_goal_is_replaced_by_the_one_reached_and_the_episode_ends_there():
    found = hindsight_episode(
        episode((turn(3, 5, ("open red door",)), turn(7, 9))), 0, lambda _, goal: [90, 91]
    )
    # The opening 0 1 2 becomes 90 91, so the reply 3 4 starts at 2; the rest is dropped.
    assert found.ids.tolist() == [90, 91, 3, 4]
    assert [(t.start, t.end) for t in found.turns] == [(2, 4)]
    assert (found.success, found.score) == (True, 1.0)


def test_an_episode_that_reached_no_goal_is_dropped():
    assert hindsight_episode(episode((turn(3, 5), turn(7, 9))), 0, lambda _, goal: [90]) is None
