"""How a rule plays: how much, which actions, and the same episode once more.

Action choices are drawn from `Effort.seed` and the task's id, so a finding can be found again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agentrl_envs.env import Environment, Observation, Split, Step, Task, TaskSet

SPLITS: tuple[Split, ...] = ("train", "heldout")

LONGEST_EPISODE = 20
"""Actions that are played of one episode."""

FEW = 8
"""Tasks for the rules that play every task several times over."""

BLIND = ("", "look around", "go forward", "wait")
"""Replies for environments that offer no actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is played."""

    tasks: int
    """Tasks of each split."""
    seed: int

    def dealt(self, task_set: TaskSet, split: Split, most: int | None = None) -> list[Task]:
        """The first tasks of a split; no more than it has."""
        count = min(self.tasks, most or self.tasks, task_set.size(split) or self.tasks)
        return [task_set.task(split, index) for index in range(count)]

    def draws(self, task: Task) -> random.Random:
        return random.Random(f"{self.seed}/{task.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """What was seen at first, and the turns that followed."""

    opening: Observation
    turns: list[Turn]

    def observations(self) -> list[Observation]:
        return [self.opening, *(turn.step.observation for turn in self.turns)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One action and what it led to."""

    action: str
    step: Step


class Opened:
    """An environment that is closed at the end."""

    def __init__(self, task_set: TaskSet) -> None:
        self._environment = task_set.environment()

    def __enter__(self) -> Environment:
        return self._environment

    def __exit__(self, *_: object) -> None:
        self._environment.close()


def both_splits(task_set: TaskSet, effort: Effort, most: int | None = None) -> list[Task]:
    """The tasks of one split, then those of the other."""
    return [task for split in SPLITS for task in effort.dealt(task_set, split, most)]


def played(environment: Environment, task: Task, effort: Effort) -> Episode:
    """Random admissible actions to the episode's end, or `LONGEST_EPISODE` of them."""
    draws = effort.draws(task)
    opening = observation = environment.reset(task)
    turns: list[Turn] = []
    while len(turns) < LONGEST_EPISODE and not (turns and ended(turns[-1].step)):
        action = draws.choice(observation.admissible or BLIND)
        turns.append(Turn(action=action, step=environment.step(action)))
        observation = turns[-1].step.observation
    return Episode(opening=opening, turns=turns)


def replayed(environment: Environment, turns: list[Turn]) -> str | None:
    """How the same actions lead to something else; None: they do not."""
    for number, turn in enumerate(turns):
        again = environment.step(turn.action)
        if again != turn.step:
            return (
                f"{turn.action!r} at {number} led to {again.observation.text!r} {again.reward}, "
                f"not to {turn.step.observation.text!r} {turn.step.reward}"
            )
    return None


def ended(step: Step) -> bool:
    return step.terminated or step.truncated
