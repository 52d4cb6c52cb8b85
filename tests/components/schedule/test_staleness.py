"""The schedule of (iteration, policy), by hand."""

from collections.abc import Sequence

import pytest
from iteration_records import iteration_record

from agentrl_components.schedule.record import IterationRecord
from agentrl_components.schedule.staleness import PlayWindow, play_window
from agentrl_components.spec import RunSpec


def spec(most: int, *iterations: int, **horizon: object) -> RunSpec:
    phases = [{"maxTurns": 2 + i, "iterations": count} for i, count in enumerate(iterations)]
    return RunSpec.model_validate(
        {
            "environments": [{"name": "corridor", "builtin": "corridor"}],
            "horizon": {"phases": phases, **horizon},
            "rollout": {"maxStaleness": most},
        }
    )


def record(at: PlayWindow, phase: int, **known: object) -> IterationRecord:
    told = {"success": 0.0, "reward_std": 0.5} | known
    known = {"iteration": at.number, "phase": phase, "max_turns": 2, "staleness": at.lag}
    return iteration_record(**known | told)


def scheduled(run: RunSpec, phases: Sequence[int]) -> list[tuple[int, int]]:
    """(iteration, policy) as the run goes, each in the phase it is told."""
    history: list[IterationRecord] = []
    out = []
    for phase in phases:
        at = play_window(run, history)
        out.append((at.number, at.policy(at.number)))
        history.append(record(at, phase))
    return out


@pytest.mark.parametrize(
    ("most", "policies"),
    [
        (0, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (1, [0, 0, 1, 2, 3, 5, 5, 6, 7]),
        (3, [0, 0, 0, 0, 1, 5, 5, 5, 5]),
    ],
)
def test_the_policy_of_every_iteration_of_two_phases(most, policies):
    run = spec(most, 5, 4)
    assert scheduled(run, [0] * 5 + [1] * 4) == list(enumerate(policies))


def test_what_may_be_played_before_the_next_update():
    run = spec(3, 5, 4)
    history: list[IterationRecord] = []
    told = []
    for phase in [0] * 5 + [1]:
        at = play_window(run, history)
        told.append(list(at.iterations()))
        history.append(record(at, phase))
    assert told == [
        [(0, 0), (1, 0), (2, 0), (3, 0)],
        [(1, 0), (2, 0), (3, 0), (4, 1)],
        [(2, 0), (3, 0), (4, 1)],  # iteration 5 is of the next phase
        [(3, 0), (4, 1)],
        [(4, 1)],
        [(5, 5), (6, 5), (7, 5), (8, 5)],
    ]


@pytest.mark.parametrize("most", [0, 1, 2, 3, 8])
def test_the_policy_planned_for_an_iteration_does_not_change_later(most):
    """The policy of an iteration is the same in every window that contains it, and it is within the
    allowed lag."""
    run = spec(most, 7, 3)
    history: list[IterationRecord] = []
    known: dict[int, int] = {}
    for phase in [0] * 7 + [1] * 3:
        at = play_window(run, history)
        for number, policy in at.iterations():
            assert known.setdefault(number, policy) == policy
            assert at.number - most <= policy <= at.number
        history.append(record(at, phase))
    assert sorted(known) == list(range(10))


def test_a_resumed_run_gets_the_same_window():
    run = spec(2, 6)
    history: list[IterationRecord] = []
    for _ in range(4):
        history.append(record(play_window(run, history), 0))
    assert play_window(run, history) == PlayWindow(number=4, lag=2, last=5, max_lag=2)
    assert play_window(run, history[:2]) == PlayWindow(number=2, lag=2, last=4, max_lag=2)


def test_the_lag_restarts_after_a_rollback():
    run = spec(2, 9)
    history: list[IterationRecord] = []
    for _ in range(4):
        history.append(record(play_window(run, history), 0))
    returned = play_window(run, history, restart_lag=True)
    assert list(returned.iterations()) == [(4, 4), (5, 4), (6, 4)]
    history.append(record(returned, 0, restored=True))
    assert list(play_window(run, history).iterations()) == [(5, 4), (6, 4), (7, 5)]


def test_episodes_played_ahead_are_not_used_if_the_phase_ends_early():
    """Two iterations of success end the phase of 5; iterations 2 and 3 were begun at its horizon,
    by policy 0 and 1. The next phase plays them by policy 2."""
    run = spec(2, 5, 5, advance="success", window=2, successAbove=0.5)
    history = [record(play_window(run, []), 0, success=1.0)]
    assert list(play_window(run, history).iterations()) == [(1, 0), (2, 0), (3, 1)]
    history.append(record(play_window(run, history), 0, success=1.0))
    assert list(play_window(run, history).iterations()) == [(2, 2), (3, 2), (4, 2)]


def test_iterations_that_a_hold_alarm_adds_have_no_lag():
    """A `hold` alarm fires as long as all episodes of a group earn the same reward."""
    alarm = {"action": "hold", "window": 1, "rewardStdBelow": 0.1}
    run = spec(2, 3, 3, alarms=[alarm])
    history: list[IterationRecord] = []
    for _ in range(3):
        history.append(record(play_window(run, history), 0, reward_std=0.0))
    assert list(play_window(run, history).iterations()) == [(3, 3)]
    history.append(record(play_window(run, history), 0, reward_std=0.0))
    assert list(play_window(run, history).iterations()) == [(4, 4)]
    history.append(record(play_window(run, history), 0, reward_std=0.5))
    # One of the second phase's three iterations is left, since two were held.
    assert list(play_window(run, history).iterations()) == [(5, 5)]
