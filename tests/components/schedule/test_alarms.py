from __future__ import annotations

import math

import pytest
from iteration_records import iteration_record

from agentrl_components.schedule.alarms import fired_alarms
from agentrl_components.spec.fields.horizon import Alarm


def history(successes, restored_at=None, **signals):
    """One record per success; a signal is one number for all or a list with one for each."""
    return [
        iteration_record(
            iteration=i,
            phase=0,
            max_turns=8,
            success=success,
            restored=i == restored_at,
            **{name: v[i] if isinstance(v, list) else v for name, v in signals.items()},
        )
        for i, success in enumerate(successes)
    ]


def signals(alarm, records):
    return [ring.signal for ring in fired_alarms([alarm], records)]


@pytest.mark.parametrize(
    ("bound", "measure", "past", "within"),
    [
        ({"wellformed_below": 0.9}, "wellformed", 0.8, 0.9),
        ({"entropy_below": 0.1}, "entropy", 0.05, 0.1),
        ({"grad_norm_above": 5.0}, "grad_norm", 6.0, 5.0),
        ({"reward_std_below": 0.05}, "reward_std", 0.01, 0.05),
        ({"mismatch_kl_above": 0.01}, "mismatch_kl", 0.02, 0.01),
    ],
)
def test_each_bounded_signal_fires_beyond_its_bound_and_not_at_it(bound, measure, past, within):
    alarm = Alarm(window=3, **bound)
    assert signals(alarm, history([0.5] * 3, **{measure: past})) == list(bound)
    assert signals(alarm, history([0.5] * 3, **{measure: within})) == []
    assert signals(alarm, history([0.5] * 2, **{measure: past})) == []  # not yet a window


def test_a_fired_alarm_has_a_message_with_the_numbers():
    # (.2 + .1 + .0) / 3 = .1
    records = history([0.5] * 3, entropy=[0.2, 0.1, 0.0])
    (ring,) = fired_alarms([Alarm(), Alarm(action="stop", window=3, entropy_below=0.15)], records)
    assert (ring.alarm, ring.action, ring.bound) == (1, "stop", 0.15)
    assert ring.value == pytest.approx(0.1)
    assert ring.message == (
        "entropy per token averaged 0.1 over the last 3 iterations, below the bound of 0.15"
    )


def test_one_spike_is_not_a_collapse():
    # mean (1 + 100 + 1) / 3 = 34, median 1
    alarm = Alarm(window=3, grad_norm_above=5.0)
    assert signals(alarm, history([0.5] * 3, grad_norm=[1.0, 100.0, 1.0])) == []
    assert signals(alarm, history([0.5] * 3, grad_norm=[1.0, 100.0, 100.0])) == ["grad_norm_above"]


def test_one_low_value_or_one_iteration_without_success_is_not_a_collapse():
    # Means 0.2 / 3 = .067 and 1.8 / 3 = .6, medians .1 and .9.
    low = Alarm(window=3, entropy_below=0.09)
    assert signals(low, history([0.5] * 3, entropy=[0.1, 0.1, 0.0])) == []
    assert signals(low, history([0.5] * 3, entropy=[0.1, 0.0, 0.0])) == ["entropy_below"]
    drop = Alarm(window=3, reward_drop=0.3)  # fires at .63
    assert signals(drop, history([0.9, 0.9, 0.9, 0.9, 0.9, 0.0])) == []
    assert signals(drop, history([0.9, 0.9, 0.9, 0.9, 0.0, 0.0])) == ["reward_drop"]


def test_episodes_are_pinned_if_mean_and_median_of_most_iterations_are_at_the_bound():
    alarm, falls = Alarm(window=3, turns_pinned=0.8), [0.9, 0.9, 0.9, 0.3, 0.3, 0.3]
    for capped, found in (
        ([None, 0.8, 0.8], ["turns_pinned"]),
        ([None, None, 1.0], []),  # measured in one of three
        ([0.75, 0.75, 1.0], []),  # mean .83, median .75
        ([1.0, 1.0, 0.3], []),  # mean .77
    ):
        assert signals(alarm, history(falls, capped=[0.0] * 3 + capped)) == found


def test_a_nan_gradient_norm_is_beyond_every_bound():
    alarm = Alarm(window=3, grad_norm_above=5.0)
    broken = history([0.5] * 3, grad_norm=[1.0, math.nan, math.nan])
    (ring,) = fired_alarms([alarm], broken)
    assert ring.value == math.inf
    assert signals(alarm, history([0.5] * 3, grad_norm=[math.nan, 1.0, 1.0])) == []


def test_infinities_and_nan_in_one_window_are_beyond_every_bound():
    below = Alarm(window=3, entropy_below=0.1)
    (ring,) = fired_alarms([below], history([0.5] * 3, entropy=[math.inf, math.nan, -math.inf]))
    assert ring.value == -math.inf
    above = Alarm(window=3, mismatch_kl_above=0.1)
    (ring,) = fired_alarms([above], history([0.5] * 3, mismatch_kl=[-math.inf, math.inf, 0.01]))
    assert ring.value == math.inf


def test_a_window_without_measurements_in_most_iterations_does_not_fire():
    alarm = Alarm(window=4, entropy_below=0.1)
    assert signals(alarm, history([0.5] * 4, entropy=[None, None, 0.0, 0.0])) == []
    assert signals(alarm, history([0.5] * 4, entropy=[None, 0.0, 0.0, 0.0])) == ["entropy_below"]


def test_reward_drop_fires_when_success_lost_a_share_of_its_best_window():
    # windows of two: .6, .8, .55, .3: 1 - .3 / .8 = .625
    records = history([0.4, 0.8, 0.8, 0.3, 0.3])
    (ring,) = fired_alarms([Alarm(window=2, reward_drop=0.6)], records)
    assert ring.value == pytest.approx(0.625)
    assert ring.message == (
        "success over 2 iterations fell from 80.0% at its best to 30.0%, a loss of 62.5% "
        "(bound 60.0%)"
    )
    assert signals(Alarm(window=2, reward_drop=0.63), records) == []


def test_success_is_compared_with_its_best_in_the_same_phase_only():
    """A phase with a longer horizon may begin with less success than a shorter one ended with."""
    records = history([0.8, 0.8, 0.3, 0.3, 0.3, 0.1, 0.1])
    records = [r.model_copy(update={"phase": int(i >= 2)}) for i, r in enumerate(records)]
    alarm = Alarm(window=2, reward_drop=0.5)
    assert [signals(alarm, records[:end]) for end in (3, 4, 5)] == [[], [], []]
    assert signals(alarm, records) == ["reward_drop"]  # .3 -> .1


def test_episodes_at_the_cap_are_compared_within_a_phase():
    records = history([0.8, 0.8, 0.3, 0.3], capped=1.0)
    records = [r.model_copy(update={"phase": int(i >= 2)}) for i, r in enumerate(records)]
    assert signals(Alarm(window=2, turns_pinned=0.9), records) == []


def test_reward_drop_does_not_fire_for_a_run_without_success():
    assert signals(Alarm(window=2, reward_drop=0.5), history([0.0] * 6)) == []


def test_the_collapse_of_the_paper_fires_two_alarms():
    # Figure 7: success .53 falls below .30 while turns climb until they are pinned at the cap.
    alarm = Alarm(window=2, turns_pinned=0.9, reward_drop=0.4)
    rising = history([0.3, 0.4, 0.5, 0.53], capped=[0.1, 0.2, 0.3, 0.4])
    assert signals(alarm, rising) == []
    collapsed = history([0.4, 0.5, 0.53, 0.53, 0.29, 0.28], capped=[0.1, 0.2, 0.3, 0.6, 0.9, 0.96])
    # pinned: (.9 + .96) / 2 = .93; success (.53 + .53) / 2 -> (.29 + .28) / 2 = 28.5 %
    pinned, dropped = fired_alarms([alarm], collapsed)
    assert (pinned.signal, dropped.signal) == ("turns_pinned", "reward_drop")
    assert pinned.message == (
        "93.0% of episodes ended at the cap over the last 2 iterations (bound 90.0%) while success "
        "fell from 53.0% to 28.5%"
    )


def test_episodes_at_the_turn_limit_do_not_fire_while_success_does_not_fall():
    alarm = Alarm(window=2, turns_pinned=0.9)
    assert signals(alarm, history([0.3, 0.3, 0.4, 0.4], capped=1.0)) == []
    assert signals(alarm, history([0.31, 0.3, 0.3, 0.3], capped=1.0)) == []  # .005 is noise


def test_records_before_a_rollback_are_ignored():
    alarm = Alarm(window=2, reward_drop=0.5)
    falling = [0.8, 0.8, 0.2, 0.2]
    assert signals(alarm, history(falling)) == ["reward_drop"]
    assert signals(alarm, history([*falling, 0.3, 0.3], restored_at=4)) == []


def test_a_signal_without_a_bound_never_fires():
    records = history([0.9, 0.9, 0.0, 0.0], capped=1.0, entropy=0.0, grad_norm=1e9)
    assert fired_alarms([Alarm(window=1)], records) == ()


def outage(successes, down):
    """A history of environments a and b; b is down in the iterations `down`."""
    return [
        one.model_copy(
            update={
                "metrics": one.metrics
                | {"train/a/episodes": 8.0, "train/b/episodes": 0.0 if i in down else 8.0}
            }
        )
        for i, one in enumerate(history(successes, capped=1.0))
    ]


@pytest.mark.parametrize(
    ("successes", "down"),
    [
        ([0.6, 0.6, 0.3, 0.3], {2, 3}),  # the easier environment is down
        ([0.9, 0.9, 0.6, 0.6], {0, 1}),  # the harder one was down, and is back
    ],
)
def test_an_environment_that_is_down_or_back_is_no_drop_of_success(successes, down):
    drop, pinned = Alarm(window=2, reward_drop=0.3), Alarm(window=2, turns_pinned=0.9)
    assert signals(drop, outage(successes, ())) == ["reward_drop"]
    assert signals(pinned, outage(successes, ())) == ["turns_pinned"]
    assert signals(drop, outage(successes, down)) == []
    assert signals(pinned, outage(successes, down)) == []


def test_where_episodes_stream_an_environment_without_episodes_is_not_down():
    """A slow environment has episodes in every second iteration only."""
    streamed = [
        one.model_copy(update={"metrics": one.metrics | {"rollout/lead": 1.0}})
        for one in outage([0.6, 0.6, 0.3, 0.3], {1, 3})
    ]
    assert signals(Alarm(window=2, reward_drop=0.3), streamed) == ["reward_drop"]


def test_a_collapse_during_an_outage_and_over_it_is_found():
    drop = Alarm(window=2, reward_drop=0.3)
    assert signals(drop, outage([0.6, 0.9, 0.9, 0.5, 0.5], {1, 2, 3, 4})) == ["reward_drop"]
    # 0.6, 0.6 before the outage and 0.3, 0.3 after it
    assert signals(drop, outage([0.6, 0.6, 0.9, 0.3, 0.3], {2})) == ["reward_drop"]
