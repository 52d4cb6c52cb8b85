"""The rules of `conformance`: each plays, and says what it found wrong, or None.

Action choices are drawn from `Effort.seed` and the task's id, so a finding can be found again.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, replace

from agentrl_envs.contract import Referee
from agentrl_envs.env import (
    Environment,
    Observation,
    Relabels,
    Split,
    Step,
    Task,
    TaskSet,
    split_of,
)
from agentrl_envs.errors import ContractError, TaskError

SPLITS: tuple[Split, ...] = ("train", "heldout")

LONGEST_EPISODE = 20
"""Actions that are played of one episode."""

FEW = 8
"""Tasks for the rules that play every task several times over."""

MOST_OFFERED = 32
"""Actions that are tried of one observation."""

BLIND = ("", "look around", "go forward", "wait")
"""Replies for environments that offer no actions."""

INVALID = (
    "",
    " \n\t ",
    "Action:",
    "Thought: I do not know.\nAction: \nAction: ",
    "xyzzy plugh",
    "\x00\x1b[2J",
    "__import__('os').getpid()",
    "[" * 2000,
    "žluťoučký 🐎 " * 50,
)
"""Replies in which no environment should find an action."""

RAISED = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, OSError,
          RuntimeError, SyntaxError, TypeError, ValueError, RecursionError)  # fmt: skip
"""What an environment's own mistakes raise: a finding, not the end of the check."""


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


def ids_are_content_hashes(task_set: TaskSet, effort: Effort) -> str | None:
    form = re.compile(re.escape(task_set.name) + r"-[0-9a-f]{16}")
    ids: dict[str, str] = {}
    for task in _all(task_set, effort):
        if not form.fullmatch(task.id):
            return f"task.id is {task.id!r}; expected {task_set.name}-<16 hex digits>"
        content = json.dumps(dict(task.payload), sort_keys=True)
        if ids.setdefault(content, task.id) != task.id:
            return f"one payload has the ids {ids[content]} and {task.id}"
    return None


def tasks_are_in_their_split(task_set: TaskSet, effort: Effort) -> str | None:
    for split in SPLITS:
        for task in effort.dealt(task_set, split):
            if split_of(task.id) != split:
                return f"{task.id} is dealt in {split}, but its hash is in {split_of(task.id)}"
    return None


def an_index_deals_one_task(task_set: TaskSet, effort: Effort) -> str | None:
    for split in SPLITS:
        first = effort.dealt(task_set, split)
        for index in reversed(range(len(first))):
            again = task_set.task(split, index)
            if again != first[index]:
                return f"task({split!r}, {index}) is {first[index].id}, then {again.id}"
        size = task_set.size(split)
        if size is not None:
            if size < 1:
                return f"size({split!r}) is {size}"
            if task_set.task(split, size) != first[0]:
                return f"task({split!r}, {size}) is not task({split!r}, 0), though there are {size}"
    return None


def heldout_tasks_are_distinct(task_set: TaskSet, effort: Effort) -> str | None:
    heldout = [task.id for task in effort.dealt(task_set, "heldout")]
    for index, task_id in enumerate(heldout):
        if task_id in heldout[:index]:
            return f"held-out tasks {heldout.index(task_id)} and {index} are both {task_id}"
    both = set(heldout) & {task.id for task in effort.dealt(task_set, "train")}
    return f"{min(both)} is in both splits" if both else None


def payloads_travel(task_set: TaskSet, effort: Effort) -> str | None:
    for task in _all(task_set, effort, FEW):
        travelled = replace(task, payload=json.loads(json.dumps(dict(task.payload))))
        if travelled.payload != dict(task.payload):
            return f"{task.id}: the payload is not the same after a journey as JSON"
        with _Open(task_set) as here, _Open(task_set) as there:
            first, second = here.reset(task), there.reset(travelled)
        if first != second:
            return f"{task.id}: reset shows {second.text!r}, and {first.text!r} before the journey"
    return None


def foreign_payloads_are_refused(task_set: TaskSet, effort: Effort) -> str | None:
    foreign = Task(
        id=f"{task_set.name}-0123456789abcdef", category="foreign", payload={"of": "another world"}
    )
    with _Open(task_set) as environment:
        try:
            shown = environment.reset(foreign)
        except TaskError:
            return None
    return f"reset took the payload {foreign.payload} and shows {shown.text!r}"


def answers_keep_their_form(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as environment:
        for task in _all(task_set, effort):
            referee = Referee()
            try:
                episode = _played(environment, task, effort)
                referee.reset(episode.opening)
                for turn in episode.turns:
                    referee.step(turn.step)
            except ContractError as error:
                return f"{task.id}: {error}"
    return None


def episodes_replay(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as used:
        for task in _all(task_set, effort, FEW):
            with _Open(task_set) as new:
                episode = _played(new, task, effort)
            for name in ("a used session", "the same session again"):
                if (shown := used.reset(task)) != episode.opening:
                    return (
                        f"{task.id}: reset shows {shown.text!r} in {name}, "
                        f"not {episode.opening.text!r}"
                    )
                if finding := _replayed(used, episode.turns):
                    return f"{task.id}: {finding} in {name}"
    return None


def sessions_are_isolated(task_set: TaskSet, effort: Effort) -> str | None:
    tasks = _all(task_set, effort, FEW)
    alone = []
    for task in tasks:
        with _Open(task_set) as environment:
            alone.append(_played(environment, task, effort))
    sessions = [task_set.environment() for _ in tasks]
    try:
        for session, task in zip(sessions, tasks, strict=True):
            session.reset(task)
        for turn in range(LONGEST_EPISODE):
            for session, task, episode in zip(sessions, tasks, alone, strict=True):
                if finding := _replayed(session, episode.turns[turn : turn + 1]):
                    return f"{task.id}: {finding} among {len(tasks)} sessions"
    finally:
        for session in sessions:
            session.close()
    return None


def admissible_actions_are_accepted(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as environment:
        for task in _all(task_set, effort, FEW):
            episode = _played(environment, task, effort)
            running = len([turn for turn in episode.turns if not _ended(turn.step)])
            for taken, observation in enumerate(episode.observations()[: min(4, running + 1)]):
                if observation.admissible == ():
                    return f"{task.id}: nothing is admissible after {taken} actions"
                offered = observation.admissible or ()
                for action in effort.draws(task).sample(offered, min(len(offered), MOST_OFFERED)):
                    environment.reset(task)
                    for turn in episode.turns[:taken]:
                        environment.step(turn.action)
                    if environment.step(action).info.get("wellformed") is not True:
                        return f"{task.id}: {action!r} is admissible but not well-formed"
    return None


def invalid_replies_change_nothing(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as environment:
        for task in _all(task_set, effort, FEW):
            episode = _played(environment, task, effort)
            environment.reset(task)
            before, state = episode.opening, None
            for number, turn in enumerate(episode.turns[:3]):
                for reply in INVALID:
                    if finding := _changed(environment.step(reply), before, state):
                        return f"{task.id}: reply {reply[:40]!r} after {number} actions {finding}"
                if finding := _replayed(environment, [turn]):
                    return f"{task.id}: {finding} after invalid replies"
                before, state = turn.step.observation, turn.step.info.get("state")
    return None


def states_are_anchors(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as environment:
        for task in _all(task_set, effort):
            offered: dict[str, tuple[str, ...] | None] = {}
            for turn in _played(environment, task, effort).turns:
                state, actions = turn.step.info.get("state"), turn.step.observation.admissible
                if state is not None and offered.setdefault(state, actions) != actions:
                    return f"{task.id}: state {state} offers {offered[state]} and {actions}"
    return None


def vocabularies_are_closed(task_set: TaskSet, effort: Effort) -> str | None:
    vocabulary = task_set.vocabulary()
    if vocabulary is None:
        return None
    known = set(vocabulary)
    if len(known) < len(vocabulary):
        return "vocabulary() has repeats"
    if unknown := set(task_set.instructions().split()) - known:
        return f"{min(unknown)!r} of the instructions is not in the vocabulary"
    with _Open(task_set) as environment:
        for task in _all(task_set, effort):
            environment.reset(task)
            seen = [environment.step("").observation]
            seen += _played(environment, task, effort).observations()
            if unknown := {word for each in seen for word in _words(each)} - known:
                return f"{task.id}: {min(unknown)!r} is not in the vocabulary"
    return None


def goals_are_rewritten(task_set: TaskSet, effort: Effort) -> str | None:
    with _Open(task_set) as environment:
        for task in _all(task_set, effort, FEW):
            episode = _played(environment, task, effort)
            for turn in episode.turns:
                achieved = turn.step.info.get("achieved", [])
                if not (isinstance(achieved, list) and all(isinstance(g, str) for g in achieved)):
                    return f"{task.id}: info.achieved is {achieved!r}; expected a list of strings"
                for goal in achieved:
                    if finding := _unsteady(task_set, episode.opening.text, goal):
                        return f"{task.id}: {finding}"
    return None


def sessions_close_twice(task_set: TaskSet, effort: Effort) -> str | None:
    fresh = task_set.environment()
    fresh.close()
    fresh.close()
    used = task_set.environment()
    used.reset(task_set.task("train", 0))
    used.close()
    used.close()
    return None


class _Open:
    """An environment that is closed at the end."""

    def __init__(self, task_set: TaskSet) -> None:
        self._environment = task_set.environment()

    def __enter__(self) -> Environment:
        return self._environment

    def __exit__(self, *_: object) -> None:
        self._environment.close()


def _all(task_set: TaskSet, effort: Effort, most: int | None = None) -> list[Task]:
    return [task for split in SPLITS for task in effort.dealt(task_set, split, most)]


def _played(environment: Environment, task: Task, effort: Effort) -> Episode:
    """Random admissible actions to the episode's end, or `LONGEST_EPISODE` of them."""
    draws = effort.draws(task)
    opening = observation = environment.reset(task)
    turns: list[Turn] = []
    while len(turns) < LONGEST_EPISODE and not (turns and _ended(turns[-1].step)):
        action = draws.choice(observation.admissible or BLIND)
        turns.append(Turn(action=action, step=environment.step(action)))
        observation = turns[-1].step.observation
    return Episode(opening=opening, turns=turns)


def _replayed(environment: Environment, turns: list[Turn]) -> str | None:
    for number, turn in enumerate(turns):
        again = environment.step(turn.action)
        if again != turn.step:
            return (
                f"{turn.action!r} at {number} led to {again.observation.text!r} {again.reward}, "
                f"not to {turn.step.observation.text!r} {turn.step.reward}"
            )
    return None


def _unsteady(task_set: TaskSet, opening: str, goal: str) -> str | None:
    if not isinstance(task_set, Relabels):
        return None
    text, again = task_set.relabel(opening, goal), task_set.relabel(opening, goal)
    if not isinstance(text, str) or not text.strip():
        return f"relabel to {goal!r} is {text!r}; expected text"
    return None if again == text else f"relabel to {goal!r} is {text!r}, then {again!r}"


def _changed(step: Step, before: Observation, state: object) -> str | None:
    if step.info.get("wellformed") is not False:
        return f"has info.wellformed {step.info.get('wellformed')!r}"
    if _ended(step) or step.reward != 0:
        return f"ended the episode or earned {step.reward}"
    if not step.observation.text.strip():
        return "got no message"
    if step.observation.admissible != before.admissible:
        return f"changed what is admissible to {step.observation.admissible}"
    if state is not None and step.info.get("state") != state:
        return f"changed the state from {state} to {step.info.get('state')}"
    return None


def _ended(step: Step) -> bool:
    return step.terminated or step.truncated


def _words(observation: Observation) -> list[str]:
    return " ".join((observation.text, *(observation.admissible or ()))).split()
