from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iteration_records import iteration_record

from agentrl_components.schedule.history import best_checkpoint
from agentrl_components.schedule.horizon import PAPER_SCHEDULES, Position, position
from agentrl_components.spec.fields.horizon import Alarm, Horizon, Phase

STAGED = Horizon(
    phases=(
        Phase(max_turns=10, iterations=100),
        Phase(max_turns=20, iterations=100),
        Phase(max_turns=30, iterations=130),
    )
)


def play(horizon, successes, history=(), **signals):
    """Append one record per success, each where the schedule puts it; stop where it is finished."""
    history = list(history)
    for success in successes:
        at = position(horizon, history)
        if at.finished:
            break
        history.append(
            iteration_record(
                iteration=len(history),
                phase=at.phase,
                max_turns=at.max_turns,
                success=success,
                **signals,
            )
        )
    return history


def test_success_during_an_outage_does_not_end_a_phase_with_that_before_it():
    """Windows of two: 0.5 with both environments, then 0.9 without b. The mean over the outage
    counts once it fills a window."""
    horizon = Horizon(
        phases=(Phase(max_turns=2, iterations=9), Phase(max_turns=4, iterations=9)),
        advance="success",
        success_above=0.65,
        window=2,
    )
    both, alone = {"train/b/episodes": 8.0}, {"train/b/episodes": 0.0}

    def record(iteration, success, episodes):
        one = iteration_record(iteration=iteration, phase=0, max_turns=2, success=success)
        return one.model_copy(update={"metrics": one.metrics | episodes})

    history = [record(0, 0.5, both), record(1, 0.5, both), record(2, 0.9, alone)]
    assert position(horizon, history).phase == 0  # (0.5 + 0.9) / 2 = 0.7 is of different tasks
    assert position(horizon, [*history, record(3, 0.9, alone)]).phase == 1
    assert position(horizon, [*history, record(3, 0.5, both)]).phase == 0


def test_a_run_starts_in_the_first_phase():
    assert position(STAGED, []) == Position(phase=0, iteration_in_phase=0, max_turns=10)


def test_each_phase_lasts_exactly_its_iterations_and_the_run_all_of_them():
    # Upstream stops one step early: 329 of 330. Here every iteration is played.
    history = play(STAGED, [0.5] * 1000)
    assert [record.max_turns for record in history] == [10] * 100 + [20] * 100 + [30] * 130
    assert position(STAGED, history).finished


def test_upstreams_resume_at_a_boundary_skips_a_phase_and_here_it_does_not():
    # From the checkpoint of step 100 upstream plays one step at 20 turns, then 99 at 30.
    history = play(STAGED, [0.5] * 100)
    assert position(STAGED, history) == Position(phase=1, iteration_in_phase=0, max_turns=20)
    resumed = play(STAGED, [0.5] * 100, history)
    assert [record.max_turns for record in resumed[100:]] == [20] * 100


@pytest.mark.parametrize("stopped_after", [75, 99, 101, 125, 199, 200, 201])
def test_upstreams_resume_elsewhere_shifts_the_switch_by_a_step_and_here_it_does_not(stopped_after):
    resumed = play(STAGED, [0.5] * 1000, play(STAGED, [0.5] * stopped_after))
    assert resumed == play(STAGED, [0.5] * 1000)


phases = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4
)


@given(
    phases=phases,
    advance=st.sampled_from(["iterations", "success", "plateau"]),
    window=st.integers(1, 3),
    successes=st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=40, max_size=40),
    cut=st.integers(0, 40),
    holds=st.booleans(),
)
def test_any_prefix_continued_equals_the_run_that_was_never_interrupted(
    phases, advance, window, successes, cut, holds
):
    turns = sorted(t for t, _, _ in phases)
    horizon = Horizon(
        phases=tuple(
            Phase(max_turns=t, iterations=i, min_iterations=min(m, i))
            for t, (_, i, m) in zip(turns, phases, strict=True)
        ),
        advance=advance,
        window=window,
        alarms=(Alarm(action="hold", window=2, reward_drop=0.3),) if holds else (),
    )
    whole = play(horizon, successes)
    resumed = play(horizon, successes[cut:], play(horizon, successes[:cut]))
    assert resumed == whole
    assert position(horizon, whole).finished
    # Horizons never shrink, no phase is skipped, none is longer than planned unless it is held.
    reached = [record.phase for record in whole]
    assert all(b - a in (0, 1) for a, b in pairwise(reached))
    assert len(whole) <= sum(phase.iterations for phase in horizon.phases)
    if not holds:
        for number, phase in enumerate(horizon.phases):
            assert reached.count(number) <= phase.iterations


def by_success(min_iterations=1):
    return Horizon(
        phases=(
            Phase(max_turns=3, iterations=8, min_iterations=min_iterations),
            Phase(max_turns=5, iterations=8),
        ),
        advance="success",
        success_above=0.8,
        window=2,
    )


def test_a_phase_that_waits_for_success_ends_when_the_windows_mean_reaches_it():
    # means over two: .45, .75, .8 -> the fourth record ends the phase
    history = play(by_success(), [0.2, 0.7, 0.8, 0.8, 0.1])
    assert [record.max_turns for record in history] == [3, 3, 3, 3, 5]


def test_a_phase_that_waits_for_success_respects_min_iterations_and_iterations():
    assert [r.max_turns for r in play(by_success(5), [1.0] * 6)] == [3] * 5 + [5]
    assert [r.max_turns for r in play(by_success(), [0.0] * 9)] == [3] * 8 + [5]


def test_success_of_an_earlier_phase_does_not_end_the_next():
    # Phase 0 ends with the second record; phase 1 needs two of its own.
    history = play(by_success(), [1.0, 1.0, 1.0])
    assert position(by_success(), history).phase == 1
    assert not position(by_success(), history).finished
    assert position(by_success(), play(by_success(), [1.0], history)).finished


def test_a_phase_that_waits_for_a_plateau_ends_when_success_stops_rising():
    horizon = Horizon(
        phases=(Phase(max_turns=3, iterations=20), Phase(max_turns=5, iterations=20)),
        advance="plateau",
        plateau_delta=0.05,
        window=2,
    )
    # .1 .3 .5 .5 .5 .5: means .2 .4 .5 .5 .5; the last two windows bring .5 against .5 before
    # them after the sixth record; after the fifth it was .5 against .4.
    history = play(horizon, [0.1, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert [record.max_turns for record in history] == [3] * 6 + [5]


def test_an_increase_of_plateau_delta_counts_as_an_improvement_and_a_smaller_one_does_not():
    horizon = Horizon(
        phases=(Phase(max_turns=3, iterations=20), Phase(max_turns=5, iterations=20)),
        advance="plateau",
        plateau_delta=0.25,
        window=1,
    )
    history = play(horizon, [0.0, 0.25, 0.5, 0.625, 0.75])
    assert [record.max_turns for record in history] == [3, 3, 3, 3, 5]


def test_constant_success_is_a_plateau_even_if_plateau_delta_is_0():
    horizon = Horizon(
        phases=(Phase(max_turns=3, iterations=20), Phase(max_turns=5, iterations=20)),
        advance="plateau",
        plateau_delta=0.0,
        window=1,
    )
    assert [r.max_turns for r in play(horizon, [0.5, 0.5, 0.5])] == [3, 3, 5]


def test_iterations_on_hold_are_taken_from_later_phases():
    horizon = Horizon(
        phases=(Phase(max_turns=3, iterations=2), Phase(max_turns=5, iterations=3)),
        alarms=(Alarm(action="hold", window=1, entropy_below=0.1),),
    )
    history = play(horizon, [0.5] * 3, entropy=0.05)
    at = position(horizon, history)
    assert (at.phase, at.held, at.iteration_in_phase, at.max_turns) == (0, True, 3, 3)
    history = play(horizon, [0.5], history, entropy=0.3)
    assert position(horizon, history) == Position(phase=1, iteration_in_phase=0, max_turns=5)
    history = play(horizon, [0.5] * 9, history, entropy=0.05)
    assert [record.max_turns for record in history] == [3, 3, 3, 3, 5]  # 2 + 3 in all


def test_the_best_checkpoint_has_the_best_heldout_success():
    def record(iteration, success, heldout, saved=True):
        return iteration_record(
            iteration=iteration,
            phase=0,
            max_turns=3,
            success=success,
            heldout=heldout,
            checkpointed=saved,
        )

    history = [record(0, 0.9, None), record(1, 0.2, 0.4), record(2, 0.3, 0.6), record(3, 0.1, 0.5)]
    assert best_checkpoint(history, 2) is history[2]
    # Never evaluated: means over two are .9, .55, .25, .2; one that was not saved is no candidate.
    training = [record(r.iteration, r.success, None, r.iteration != 0) for r in history]
    assert best_checkpoint(training, 2) is training[1]
    assert best_checkpoint([record(0, 0.5, 0.5, False)], 2) is None


def test_the_papers_schedules():
    turns = {name: [p.max_turns for p in h.phases] for name, h in PAPER_SCHEDULES.items()}
    assert turns["babyai"] == [6, 13, 20]
    assert turns["searchqa"] == [5, 8, 10]
    assert turns["textcraft"] == turns["sciworld"] == [10, 20, 30]
    # 11 steps an epoch, 30 epochs; 25 an epoch, 20 epochs; 132, 10; 11, 25
    steps = {name: sum(p.iterations for p in h.phases) for name, h in PAPER_SCHEDULES.items()}
    assert (steps["textcraft"], steps["babyai"], steps["sciworld"], steps["webarena"]) == (
        330,
        500,
        1320,
        275,
    )
