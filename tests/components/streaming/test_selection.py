"""Which groups an update takes, by hand-computed cases."""

from agentrl_components.streaming.selection import select


def test_an_update_takes_the_groups_that_were_completed_first():
    assert select([3, 1, 0], {0: 1, 1: 1, 2: 1, 3: 1}, update=0, size=2) == [3, 1]


def test_an_update_waits_until_enough_groups_are_completed():
    assert select([3], {0: 1, 1: 1, 2: 1, 3: 1}, update=0, size=2) is None


def test_a_group_in_its_last_update_is_taken_before_others_that_were_completed_earlier():
    assert select([2, 3, 0], {0: 1, 2: 2, 3: 2}, update=1, size=2) == [0, 2]


def test_an_update_waits_for_a_group_whose_last_update_it_is():
    assert select([2, 3], {0: 1, 2: 2, 3: 2}, update=1, size=2) is None


def test_no_update_takes_so_many_young_groups_that_old_ones_are_too_many_for_their_last_update():
    """Groups 0 and 1 have to fit into updates 1 and 2, of one group each: update 1 has to take one
    of them, although 3 was completed first."""
    last_update = {0: 2, 1: 2, 3: 3}
    assert select([3], last_update, update=1, size=1) is None
    assert select([3, 1], last_update, update=1, size=1) == [1]


def test_without_staleness_an_update_takes_the_groups_that_were_started_for_it():
    assert select([1, 0], {0: 4, 1: 4}, update=4, size=2) == [1, 0]
    assert select([1], {0: 4, 1: 4}, update=4, size=2) is None
