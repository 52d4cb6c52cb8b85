"""Rules about the end of an episode: nothing follows it, and success agrees with the score."""

from __future__ import annotations

from agentrl_envs.calls.answer_check import REWARD_TOLERANCE
from agentrl_envs.conformance.play import (
    FEW,
    MAX_ACTIONS_TO_END,
    Budget,
    Episode,
    both_splits,
    ended,
    open_environment,
    play_episode,
)
from agentrl_envs.env import TaskSet
from agentrl_envs.errors import SessionError

MAX_ACTIONS_AFTER_END = 12


def ended_episodes_stay_ended(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget, FEW):
            episode = play_episode(
                environment, task, budget.random(task), max_actions=MAX_ACTIONS_TO_END
            )
            if not episode.has_ended():
                continue
            for action in _actions_of(episode)[:MAX_ACTIONS_AFTER_END]:
                try:
                    step = environment.step(action)
                except SessionError:  # a server refuses steps after the end, which is right
                    break
                if step.reward != 0:
                    return f"{task.id}: {action!r} after the end earned {step.reward}"
                if not ended(step):
                    return f"{task.id}: {action!r} after the end reopened the episode"
    return None


def success_agrees_with_the_score(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget):
            episode = play_episode(
                environment, task, budget.random(task), max_actions=MAX_ACTIONS_TO_END
            )
            last, score = episode.turns[-1].step, episode.score()
            if last.success and score <= REWARD_TOLERANCE:
                return f"{task.id}: success is true with a score of {score}"
            if score >= 1 - REWARD_TOLERANCE and episode.has_ended() and not last.success:
                return f"{task.id}: success is false with a score of {score}"
            if any(turn.step.success for turn in episode.turns) and not last.success:
                return f"{task.id}: success is true and later false again"
    return None


def _actions_of(episode: Episode) -> list[str]:
    """Actions that might be worth something after the end: the last one, then the others that were
    offered, latest first."""
    offered = [
        action
        for observation in reversed(episode.observations())
        for action in observation.admissible or ()
    ]
    return list(dict.fromkeys([episode.turns[-1].action, *offered, ""]))
