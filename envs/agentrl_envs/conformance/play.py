"""How the rules play: the budget, random episodes, and replays.

Actions are drawn from `Budget.seed` and the task id, so a finding can be reproduced.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from agentrl_envs.calls.watch import WATCH, CallWatch
from agentrl_envs.env import Environment, Observation, Split, Step, Task, TaskSet

SPLITS: tuple[Split, ...] = ("train", "heldout")

MAX_ACTIONS = 20
"""Actions of an episode."""

MAX_ACTIONS_TO_END = 200
"""Actions of an episode for rules that need its end."""

FEW = 8
"""Tasks per split for rules that play every task several times."""

BLIND_REPLIES = ("", "look around", "go forward", "wait")
"""Replies for environments that do not list actions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much is played."""

    task_count: int
    """Tasks of each split."""
    seed: int

    def tasks(self, task_set: TaskSet, split: Split, limit: int | None = None) -> list[Task]:
        """The first tasks of a split: at most `limit`, and no more than the split has."""
        count = min(
            self.task_count, limit or self.task_count, task_set.size(split) or self.task_count
        )
        with WATCH.call(task_set.name, f"tasks of {split}"):
            return [task_set.task(split, index) for index in range(count)]

    def random(self, task: Task) -> random.Random:
        """The random stream for the actions of a task."""
        return random.Random(f"{self.seed}/{task.id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One action and its result."""

    action: str
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """The first observation and the turns that followed."""

    first: Observation
    turns: list[Turn]

    def observations(self) -> list[Observation]:
        return [self.first, *(turn.step.observation for turn in self.turns)]

    def score(self) -> float:
        return sum(turn.step.reward for turn in self.turns)

    def has_ended(self) -> bool:
        return bool(self.turns) and ended(self.turns[-1].step)


class WatchedEnvironment:
    """An environment of a task set. Calls that hang are reported by `watch`."""

    def __init__(self, task_set: TaskSet, watch: CallWatch = WATCH) -> None:
        self._name, self._watch = task_set.name, watch
        self._environment = task_set.environment()
        self._task: Task | None = None

    def reset(self, task: Task) -> Observation:
        self._task = task
        with self._watch.call(self._name, "reset", task):
            return self._environment.reset(task)

    def step(self, action: str) -> Step:
        with self._watch.call(self._name, "step", self._task):
            return self._environment.step(action)

    def close(self) -> None:
        with self._watch.call(self._name, "close", self._task):
            self._environment.close()


@contextmanager
def open_environment(task_set: TaskSet) -> Iterator[Environment]:
    """An environment that is closed at the end."""
    environment = WatchedEnvironment(task_set)
    try:
        yield environment
    finally:
        environment.close()


def both_splits(task_set: TaskSet, budget: Budget, limit: int | None = None) -> list[Task]:
    """The first tasks of both splits."""
    return [task for split in SPLITS for task in budget.tasks(task_set, split, limit)]


def play_episode(
    environment: Environment,
    task: Task,
    draws: random.Random,
    *,
    max_actions: int = MAX_ACTIONS,
) -> Episode:
    """Play random admissible actions to the end of the episode, or `max_actions` of them."""
    first = observation = environment.reset(task)
    turns: list[Turn] = []
    while len(turns) < max_actions and not (turns and ended(turns[-1].step)):
        action = draws.choice(observation.admissible or BLIND_REPLIES)
        turns.append(Turn(action=action, step=environment.step(action)))
        observation = turns[-1].step.observation
    return Episode(first=first, turns=turns)


def replay_difference(environment: Environment, turns: list[Turn]) -> str | None:
    """The first difference when the same actions are taken again; None: no difference."""
    for number, turn in enumerate(turns):
        step = environment.step(turn.action)
        if step != turn.step:
            return (
                f"{turn.action!r} at {number} led to {step.observation.text!r} {step.reward}, "
                f"not to {turn.step.observation.text!r} {turn.step.reward}"
            )
    return None


def ended(step: Step) -> bool:
    return step.terminated or step.truncated
