"""Which episodes are played at the same time."""

from __future__ import annotations

import pytest

from agentrl_components.spec import RunSpec
from agentrl_components.spec.batches import Batch, batches


def found(**fields: object) -> list[Batch]:
    usual = {
        "environments": [{"name": "walk", "builtin": "corridor"}],
        "horizon": {"phases": [{"maxTurns": 9, "iterations": 1}, {"maxTurns": 4, "iterations": 1}]},
        "rollout": {"tasks": 3, "groupSize": 4},
        "evaluation": {"tasks": 10, "samples": 2},
    }
    return batches(RunSpec.model_validate(usual | fields))


def test_updates_and_evaluations_play_episodes():
    training, evaluation = found()
    assert (training.when, training.episodes, training.turns) == ("in training", 12, 9)
    # The last phase has 4 turns.
    assert (evaluation.when, evaluation.episodes, evaluation.turns) == ("in evaluations", 20, 4)


def test_the_turns_of_an_evaluation_are_its_own_or_those_of_its_sweep():
    assert found(evaluation={"maxTurns": 6})[1].turns == 6
    assert found(evaluation={"maxTurns": 6, "turnSweep": [2, 12]})[1].turns == 12
    own = {"name": "walk", "builtin": "corridor", "maxTurns": [3, 7]}
    assert [one.turns for one in found(environments=[own])] == [7, 7]


@pytest.mark.parametrize(
    ("algorithm", "sampled"), [("hindsight", False), ("filtered-imitation", True)]
)
def test_a_warm_start_that_plays_has_a_batch_by_the_model_or_the_random_policy(algorithm, sampled):
    warm = {"algorithm": algorithm, "episodes": 50, "maxTurns": 5}
    *_, played = found(warmStart=warm)
    assert played == Batch(when="in the warm start", tasks=50, samples=1, turns=5, sampled=sampled)


def test_a_warm_start_by_given_trajectories_plays_nothing():
    given = {"algorithm": "sft", "trajectories": "file:///some.jsonl"}
    assert len(found(warmStart=given)) == 2


def test_an_environment_has_the_episodes_of_its_share_of_the_tasks_rounded_up():
    # A third of 10 tasks are 4, with 2 episodes each.
    assert found()[1].share(1.0, 3.0) == 8
