"""Rules about sessions: their answers, replays, actions, states, ends."""

from __future__ import annotations

from agentrl_envs.answer_check import AnswerChecker
from agentrl_envs.conformance.play import (
    FEW,
    LONGEST_EPISODE,
    Effort,
    Opened,
    both_splits,
    ended,
    played,
    replayed,
)
from agentrl_envs.env import Observation, Step, TaskSet
from agentrl_envs.errors import ContractError

MOST_OFFERED = 32
"""Actions that are tried of one observation."""

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


def answers_keep_their_form(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort):
            checker = AnswerChecker()
            try:
                episode = played(environment, task, effort)
                checker.reset(episode.opening)
                for turn in episode.turns:
                    checker.step(turn.step)
            except ContractError as error:
                return f"{task.id}: {error}"
    return None


def episodes_replay(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as used:
        for task in both_splits(task_set, effort, FEW):
            with Opened(task_set) as new:
                episode = played(new, task, effort)
            for name in ("a used session", "the same session again"):
                if (shown := used.reset(task)) != episode.opening:
                    return (
                        f"{task.id}: reset shows {shown.text!r} in {name}, "
                        f"not {episode.opening.text!r}"
                    )
                if finding := replayed(used, episode.turns):
                    return f"{task.id}: {finding} in {name}"
    return None


def sessions_are_isolated(task_set: TaskSet, effort: Effort) -> str | None:
    tasks = both_splits(task_set, effort, FEW)
    alone = []
    for task in tasks:
        with Opened(task_set) as environment:
            alone.append(played(environment, task, effort))
    sessions = [task_set.environment() for _ in tasks]
    try:
        for session, task in zip(sessions, tasks, strict=True):
            session.reset(task)
        for turn in range(LONGEST_EPISODE):
            for session, task, episode in zip(sessions, tasks, alone, strict=True):
                if finding := replayed(session, episode.turns[turn : turn + 1]):
                    return f"{task.id}: {finding} among {len(tasks)} sessions"
    finally:
        for session in sessions:
            session.close()
    return None


def admissible_actions_are_accepted(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort, FEW):
            episode = played(environment, task, effort)
            running = len([turn for turn in episode.turns if not ended(turn.step)])
            for taken, observation in enumerate(episode.observations()[: min(4, running + 1)]):
                if observation.admissible == ():
                    return f"{task.id}: nothing is admissible after {taken} actions"
                offered = observation.admissible or ()
                for action in effort.draws(task).sample(offered, min(len(offered), MOST_OFFERED)):
                    environment.reset(task)
                    for turn in episode.turns[:taken]:
                        environment.step(turn.action)
                    if environment.step(action).wellformed is not True:
                        return f"{task.id}: {action!r} is admissible but not well-formed"
    return None


def invalid_replies_change_nothing(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort, FEW):
            episode = played(environment, task, effort)
            environment.reset(task)
            before, state = episode.opening, None
            for number, turn in enumerate(episode.turns[:3]):
                for reply in INVALID:
                    if finding := _changed(environment.step(reply), before, state):
                        return f"{task.id}: reply {reply[:40]!r} after {number} actions {finding}"
                if finding := replayed(environment, [turn]):
                    return f"{task.id}: {finding} after invalid replies"
                before, state = turn.step.observation, turn.step.state
    return None


def states_are_anchors(task_set: TaskSet, effort: Effort) -> str | None:
    with Opened(task_set) as environment:
        for task in both_splits(task_set, effort):
            offered: dict[str, tuple[str, ...] | None] = {}
            for turn in played(environment, task, effort).turns:
                state, actions = turn.step.state, turn.step.observation.admissible
                if state is not None and offered.setdefault(state, actions) != actions:
                    return f"{task.id}: state {state} offers {offered[state]} and {actions}"
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


def _changed(step: Step, before: Observation, state: object) -> str | None:
    if step.wellformed is not False:
        return f"has wellformed {step.wellformed!r}"
    if ended(step) or step.reward != 0:
        return f"ended the episode or earned {step.reward}"
    if not step.observation.text.strip():
        return "got no message"
    if step.observation.admissible != before.admissible:
        return f"changed what is admissible to {step.observation.admissible}"
    if state is not None and step.state != state:
        return f"changed the state from {state} to {step.state}"
    return None
