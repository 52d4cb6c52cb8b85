"""Rules about text: the closed vocabulary and relabeling."""

from __future__ import annotations

from agentrl_envs.conformance.play import (
    FEW,
    Budget,
    both_splits,
    open_environment,
    play_episode,
)
from agentrl_envs.env import Observation, Relabels, TaskSet


def vocabularies_are_closed(task_set: TaskSet, budget: Budget) -> str | None:
    vocabulary = task_set.vocabulary()
    if vocabulary is None:
        return None
    words = set(vocabulary)
    if len(words) < len(vocabulary):
        return "vocabulary() has duplicates"
    if unknown := set(task_set.instructions().split()) - words:
        return f"{min(unknown)!r} of the instructions is not in the vocabulary"
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget):
            environment.reset(task)
            observations = [environment.step("").observation]
            episode = play_episode(environment, task, budget.random(task))
            observations += episode.observations()
            if unknown := {word for each in observations for word in _words(each)} - words:
                return f"{task.id}: {min(unknown)!r} is not in the vocabulary"
    return None


def goals_are_relabeled(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget, FEW):
            episode = play_episode(environment, task, budget.random(task))
            for turn in episode.turns:
                achieved = turn.step.achieved
                if not (isinstance(achieved, tuple) and all(isinstance(g, str) for g in achieved)):
                    return f"{task.id}: achieved is {achieved!r}; expected a tuple of strings"
                for goal in achieved:
                    if finding := _relabel_difference(task_set, episode.first.text, goal):
                        return f"{task.id}: {finding}"
    return None


def _relabel_difference(task_set: TaskSet, first: str, goal: str) -> str | None:
    if not isinstance(task_set, Relabels):
        return None
    text, again = task_set.relabel(first, goal), task_set.relabel(first, goal)
    if not isinstance(text, str) or not text.strip():
        return f"relabel to {goal!r} is {text!r}; expected text"
    return None if again == text else f"relabel to {goal!r} is {text!r}, then {again!r}"


def _words(observation: Observation) -> list[str]:
    return " ".join((observation.text, *(observation.admissible or ()))).split()
