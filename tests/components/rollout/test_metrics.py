"""Too many lost episodes are no result; staleness is measured over sampled tokens."""

from dataclasses import replace

import numpy as np
import pytest
from corridor_rules import RULES

from agentrl_components.errors import RunError
from agentrl_components.rollout.episode import EpisodeState, Job, lost_trajectory, trajectory
from agentrl_components.rollout.metrics import (
    check_lost,
    completed,
    staleness,
    training_metrics,
)
from agentrl_components.spec.fields.algorithm import Reward
from agentrl_components.trajectory.record import Turn
from agentrl_envs.environments.corridor import CorridorTasks


def job(group: int) -> Job:
    task = CorridorTasks().task("train", group)
    return Job(
        environment="corridor", instructions="", task=task, group=group, sample=0, iteration=0
    )


def episodes(whole: int, gone: int):
    kept = [trajectory(job(i), RULES, EpisodeState()) for i in range(whole)]
    return kept + [
        lost_trajectory(job(whole + i), RULES, "its server went away") for i in range(gone)
    ]


def test_lost_episodes_up_to_the_limit_are_accepted_and_one_more_is_not():
    check_lost(episodes(whole=3, gone=1), 0.25)
    with pytest.raises(RunError, match=r"^2 of 5 episodes were lost, .* its server went away$"):
        check_lost(episodes(whole=3, gone=2), 0.25)


def test_the_message_says_which_episodes():
    with pytest.raises(RunError, match=r"^evaluation after: 1 of 1 episodes of iteration 7 were"):
        check_lost(episodes(0, 1), 0.0, prefix="evaluation after: ", of=" of iteration 7")


def test_with_require_some_losing_all_episodes_is_an_error():
    check_lost(episodes(0, 2), 1.0)
    with pytest.raises(RunError, match="2 of 2"):
        check_lost(episodes(0, 2), 1.0, require_some=True)


def test_lost_episodes_count_in_no_metric_but_their_number():
    told = training_metrics(episodes(whole=1, gone=3), 0, Reward())
    assert (told["train/episodes"], told["train/lost"]) == (1.0, 3.0)
    assert len(completed(episodes(whole=1, gone=3))) == 1


def test_the_deviation_within_groups_is_of_the_rewards_that_are_learnt_from():
    """Two successes of a task, in 2 and in 6 of 8 turns: with half the score for turns they earn
    0.875 and 0.625, whose standard deviation is 0.125."""
    turn = Turn(start=0, end=1, reward=0.0, wellformed=True, action="go", observation="", version=0)
    first, second = (
        replace(one, group=0, score=1.0, max_turns=8, turns=(turn,) * turns)
        for one, turns in zip(episodes(whole=2, gone=0), (2, 6), strict=True)
    )
    shaped = training_metrics([first, second], 0, Reward(turn_penalty=0.5))
    assert shaped["train/reward_std"] == 0.125
    assert training_metrics([first, second], 0, Reward())["train/reward_std"] == 0.0


def test_the_metrics_of_an_iteration_are_those_of_its_completed_episodes():
    """Group 0: solved in the last of 2 turns, and failed in as many; group 1: failed after one,
    with a reply that is not well-formed; one episode was lost. Of four, four and two tokens two,
    one and none were sampled."""
    good = Turn(start=0, end=1, reward=0.0, wellformed=True, action="go", observation="", version=0)
    bad = replace(good, wellformed=False)
    outcomes = [
        {"group": 0, "turns": (good, good), "success": True, "score": 1.0, "ids": np.arange(4)},
        {"group": 0, "turns": (good, good), "success": False, "score": 0.5, "ids": np.arange(4)},
        {"group": 1, "turns": (bad,), "success": False, "score": 0.0, "ids": np.arange(2)},
    ]
    whole = episodes(whole=3, gone=1)
    masks = [False, True, False, True], [False, True, False, False], [False, False]
    played = [
        replace(e, max_turns=2, mask=np.array(mask), **outcome)
        for e, outcome, mask in zip(whole, outcomes, masks, strict=False)
    ]
    assert training_metrics([*played, whole[3]], 1, Reward()) == pytest.approx(
        {
            "train/success": 1 / 3,
            "train/score": 0.5,
            "train/turns": 5 / 3,
            "train/capped": 1 / 3,  # of the two with all turns the one that failed
            "train/wellformed": 4 / 5,
            "train/reward_std": 0.125,  # 0.25 and 0
            "train/silent_groups": 1.0,
            "train/episodes": 3.0,
            "train/out_of_tokens": 0.0,
            "train/lost": 1.0,
            "train/tokens": 10.0,
            "train/sampled_tokens": 3.0,
            "train/environment_turns": 5.0,
        }
    )


def test_staleness_is_counted_for_each_sampled_token():
    """A reply of versions 4, 4, 6, whose second token was forced, trained at version 7."""
    turn = Turn(
        start=0,
        end=3,
        reward=0.0,
        wellformed=True,
        action="go",
        observation="",
        version=4,
        versions=(4, 4, 6),
    )
    (one,) = episodes(whole=1, gone=0)
    tokens = {"ids": np.array([5, 6, 7], dtype=np.int32), "mask": np.array([True, False, True])}
    lagging = [replace(one, turns=(turn,), **tokens), *episodes(whole=0, gone=1)]
    assert staleness(lagging, version=7).tolist() == [3, 1]
    assert staleness([], version=7).tolist() == []
