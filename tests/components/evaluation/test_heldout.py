"""The turn sweep of an evaluation: success by turns allowed, from the episodes of the longest."""

from dataclasses import replace

import pytest
from text_episode import episode

from agentrl_components.evaluation.heldout import HeldoutEvaluation
from agentrl_components.rollout.request import CollectRequest
from agentrl_components.trajectory.record import Trajectory

EVALUATION = HeldoutEvaluation(
    tasks=(),
    environments=("babyai",),
    samples=1,
    max_turns=8,
    turn_limits={},
    temperature=1.0,
    turn_sweep=(2, 3, 4, 8),
    max_lost_share=0.0,
)


def swept(played: Trajectory) -> dict[int, float]:
    """Success by turn limit; the evaluation plays one episode of eight turns at most."""
    result, _ = EVALUATION.run("policy", lambda _: [played])
    return {turns: found.success for turns, found in result.turn_sweep.items()}


def turns_of(solved_after: set[int], count: int, *, success: bool) -> Trajectory:
    """An episode of `count` turns; after those in `solved_after`, from 1, the task is solved."""
    one = episode(*[("a", "b", 0.0, True)] * count, success=success)
    turns = (replace(t, success=n in solved_after) for n, t in enumerate(one.turns, 1))
    return replace(one, turns=tuple(turns))


def test_an_episode_that_a_success_ended_is_solved_with_as_many_turns_as_it_took():
    assert swept(turns_of({3}, 3, success=True)) == {2: 0.0, 3: 1.0, 4: 1.0, 8: 1.0}


def test_a_success_counts_if_the_environment_goes_on_after_it():
    whole = turns_of({3, 4, 5, 6, 7, 8}, 8, success=True)
    assert swept(whole) == {2: 0.0, 3: 1.0, 4: 1.0, 8: 1.0}


def test_a_success_that_later_actions_undo_counts_only_with_fewer_turns():
    assert swept(turns_of({3, 4}, 8, success=False)) == {2: 0.0, 3: 1.0, 4: 1.0, 8: 0.0}


def test_episodes_of_earlier_versions_are_solved_with_all_their_turns():
    assert swept(turns_of(set(), 3, success=True)) == {2: 0.0, 3: 1.0, 4: 1.0, 8: 1.0}


@pytest.mark.parametrize(
    ("sweep", "limits", "played"),
    [
        ((), {}, [(8, {})]),
        ((2, 8), {}, [(8, {})]),
        ((2, 9), {}, [(8, {}), (9, {})]),
        ((2, 8), {"babyai": 4}, [(8, {"babyai": 4}), (8, {})]),
    ],
)
def test_a_sweep_beyond_the_limits_of_the_evaluation_plays_the_tasks_again(sweep, limits, played):
    asked = []

    def play(request: CollectRequest) -> list[Trajectory]:
        asked.append((request.max_turns, dict(request.turn_limits)))
        return [turns_of(set(), 2, success=True)]

    replace(EVALUATION, turn_sweep=sweep, turn_limits=limits).run("policy", play)
    assert asked == played
