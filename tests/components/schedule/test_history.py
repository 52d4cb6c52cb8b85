from __future__ import annotations

from iteration_records import iteration_record

from agentrl_components.schedule.history import best_checkpoint, comparable


def history(*successes, down=(), restored=None, phases=(), saved=()):
    """Records of environments a and b; b is down in the iterations `down`. `phases`: the first
    iteration of each phase after phase 0."""
    return [
        with_episodes(
            iteration_record(
                iteration=i,
                phase=sum(first <= i for first in phases),
                max_turns=4,
                success=success,
                restored=i == restored,
                checkpointed=i in saved,
            ),
            0.0 if i in down else 8.0,
        )
        for i, success in enumerate(successes)
    ]


def with_episodes(record, count):
    episodes = {"train/a/episodes": 8.0, "train/b/episodes": count}
    return record.model_copy(update={"metrics": record.metrics | episodes})


def compared(records, limit=None):
    return [one.iteration for one in comparable(records, limit)]


def test_comparable_records_are_of_the_same_weights_phase_and_environments():
    assert compared([]) == []
    assert compared(history(*[0.5] * 5)) == [0, 1, 2, 3, 4]
    assert compared(history(*[0.5] * 5), 2) == [3, 4]
    assert compared(history(*[0.5] * 5, restored=2)) == [2, 3, 4]
    assert compared(history(*[0.5] * 5, phases=[3])) == [3, 4]
    assert compared(history(*[0.5] * 5, down=[1, 3])) == [0, 2, 4]
    assert compared(history(*[0.5] * 5, down=[1, 3]), 2) == [2, 4]
    assert compared(history(*[0.5] * 5, down=[1, 4])) == [1, 4]
    # The rollback was while b was down: iteration 1 is of other weights all the same.
    assert compared(history(*[0.5] * 5, down=[2], restored=2)) == [3, 4]


def test_a_checkpoint_of_an_outage_is_best_only_if_there_are_no_others():
    """Without the harder environment success is 0.9."""
    rising = history(0.5, 0.5, 0.9, 0.9, 0.6, 0.7, down=[2, 3], saved=[1, 3, 5])
    assert best_checkpoint(rising, 2) is rising[5]
    assert best_checkpoint(rising[:4], 2) is rising[1]
    during = history(0.8, 0.9, down=[0, 1], saved=[0, 1])
    assert best_checkpoint(during, 1) is during[1]


def test_success_of_an_outage_does_not_count_for_the_checkpoint_after_it():
    """Both windows of two are 0.7 and 0.6; with the outage the second one is (0.9 + 0.6) / 2."""
    falling = history(0.7, 0.7, 0.6, 0.9, 0.6, down=[3], saved=[1, 4])
    assert best_checkpoint(falling, 2) is falling[1]


def test_discarded_iterations_do_not_count_against_the_checkpoint_after_a_rollback():
    """Since the rollback the mean is 0.8; with the collapse before it, (0.1 + 0.1 + 0.8) / 3."""
    back = history(0.7, 0.7, 0.1, 0.1, 0.8, restored=4, saved=[1, 4])
    assert best_checkpoint(back, 3) is back[4]


def test_the_first_checkpoint_of_a_phase_is_not_the_best_by_one_lucky_iteration():
    """Its mean is (0.8 + 0.5 + 0.85) / 3 = 0.72, that of the other one 0.8."""
    longer = history(0.8, 0.8, 0.5, 0.85, phases=[3], saved=[1, 3])
    assert best_checkpoint(longer, 3) is longer[1]
