"""Rules about wording: the closed vocabulary, goals put into other words."""

from __future__ import annotations

from agentrl_envs.conformance.play import FEW, Effort, Opened, both_splits, played
from agentrl_envs.env import Observation, Relabels, TaskSet


def vocabularies_are_closed(task_set: TaskSet, effort: Effort) -> str | None:
    vocabulary = task_set.vocabulary()
    if vocabulary is None:
        return None
    known = set(vocabulary)
    if len(known) < len(vocabulary):
        return "vocabulary() has repeats"
    if unknown := set(task_set.instructions().split()) - known:
        return f"{min(unknown)!r} of the instructions is not in the vocabulary"
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort):
            environment.reset(task)
            seen = [environment.step("").observation]
            seen += played(environment, task, effort).observations()
            if unknown := {word for each in seen for word in _words(each)} - known:
                return f"{task.id}: {min(unknown)!r} is not in the vocabulary"
    return None


def goals_are_rewritten(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort, FEW):
            episode = played(environment, task, effort)
            for turn in episode.turns:
                achieved = turn.step.achieved
                if not (isinstance(achieved, tuple) and all(isinstance(g, str) for g in achieved)):
                    return f"{task.id}: achieved is {achieved!r}; expected a tuple of strings"
                for goal in achieved:
                    if finding := _unsteady(task_set, episode.opening.text, goal):
                        return f"{task.id}: {finding}"
    return None


def _unsteady(task_set: TaskSet, opening: str, goal: str) -> str | None:
    if not isinstance(task_set, Relabels):
        return None
    text, again = task_set.relabel(opening, goal), task_set.relabel(opening, goal)
    if not isinstance(text, str) or not text.strip():
        return f"relabel to {goal!r} is {text!r}; expected text"
    return None if again == text else f"relabel to {goal!r} is {text!r}, then {again!r}"


def _words(observation: Observation) -> list[str]:
    return " ".join((observation.text, *(observation.admissible or ()))).split()
