"""Rules about sessions: form of answers, replays, isolation, actions, states."""

from __future__ import annotations

from collections.abc import Iterator

from agentrl_envs.calls.answer_check import AnswerChecker
from agentrl_envs.conformance.play import (
    FEW,
    MAX_ACTIONS,
    Budget,
    Episode,
    WatchedEnvironment,
    both_splits,
    ended,
    open_environment,
    play_episode,
    replay_difference,
)
from agentrl_envs.env import Environment, Observation, Step, Task, TaskSet
from agentrl_envs.errors import ContractError

MAX_TRIED_ACTIONS = 32
"""Admissible actions that are tried at each of the first observations of an episode."""
EARLY_OBSERVATIONS = 4
LATE_OBSERVATIONS = 4
MAX_TRIED_LATE_ACTIONS = 8
"""Admissible actions that are tried at each later observation."""

REPLAYS = 2
"""Replays of every episode."""
MANY_REPLAYS = 12
"""Replays of the first `FEW` episodes of a split, against rare non-determinism."""

INVALID_REPLIES = (
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


def answers_keep_their_form(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget):
            checker = AnswerChecker()
            try:
                episode = play_episode(environment, task, budget.random(task))
                checker.reset(episode.first)
                for turn in episode.turns:
                    checker.step(turn.step)
            except ContractError as error:
                return f"{task.id}: {error}"
    return None


def episodes_replay(task_set: TaskSet, budget: Budget) -> str | None:
    often = {task.id for task in both_splits(task_set, budget, FEW)}
    with open_environment(task_set) as used:
        for task in both_splits(task_set, budget):
            with open_environment(task_set) as new:
                episode = play_episode(new, task, budget.random(task))
            for number in range(MANY_REPLAYS if task.id in often else REPLAYS):
                session = "a used session" if number == 0 else "the same session again"
                if finding := _reset_and_replay(used, task, episode):
                    return f"{task.id}: {finding} in {session}"
    return None


def sessions_are_isolated(task_set: TaskSet, budget: Budget) -> str | None:
    tasks = both_splits(task_set, budget, FEW)
    alone = []
    for task in tasks:
        with open_environment(task_set) as environment:
            alone.append(play_episode(environment, task, budget.random(task)))
    sessions = [WatchedEnvironment(task_set) for _ in tasks]
    try:
        for session, task in zip(sessions, tasks, strict=True):
            session.reset(task)
        for turn in range(MAX_ACTIONS):
            for session, task, episode in zip(sessions, tasks, alone, strict=True):
                if finding := replay_difference(session, episode.turns[turn : turn + 1]):
                    return f"{task.id}: {finding} among {len(tasks)} sessions"
    finally:
        for session in sessions:
            session.close()
    return None


def admissible_actions_are_accepted(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget, FEW):
            episode = play_episode(environment, task, budget.random(task))
            for taken, limit in _tried_positions(episode, budget, task):
                observation = episode.observations()[taken]
                if observation.admissible == ():
                    return f"{task.id}: nothing is admissible after {taken} actions"
                offered = observation.admissible or ()
                for action in budget.random(task).sample(offered, min(len(offered), limit)):
                    environment.reset(task)
                    for turn in episode.turns[:taken]:
                        environment.step(turn.action)
                    if environment.step(action).wellformed is not True:
                        return (
                            f"{task.id}: {action!r} is admissible but not well-formed after "
                            f"{taken} actions"
                        )
    return None


def invalid_replies_change_nothing(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget, FEW):
            episode = play_episode(environment, task, budget.random(task))
            environment.reset(task)
            before, state = episode.first, None
            for number, turn in enumerate(episode.turns[:3]):
                for reply in INVALID_REPLIES:
                    if finding := _change(environment.step(reply), before, state):
                        return f"{task.id}: reply {reply[:40]!r} after {number} actions {finding}"
                if finding := replay_difference(environment, [turn]):
                    return f"{task.id}: {finding} after invalid replies"
                before, state = turn.step.observation, turn.step.state
    return None


def states_are_anchors(task_set: TaskSet, budget: Budget) -> str | None:
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget):
            offered: dict[str, tuple[str, ...] | None] = {}
            for turn in play_episode(environment, task, budget.random(task)).turns:
                state, actions = turn.step.state, turn.step.observation.admissible
                if state is not None and offered.setdefault(state, actions) != actions:
                    return f"{task.id}: state {state} offers {offered[state]} and {actions}"
    return None


def sessions_close_twice(task_set: TaskSet, budget: Budget) -> str | None:
    fresh = WatchedEnvironment(task_set)
    fresh.close()
    fresh.close()
    used = WatchedEnvironment(task_set)
    used.reset(task_set.task("train", 0))
    used.close()
    used.close()
    return None


def _reset_and_replay(environment: Environment, task: Task, episode: Episode) -> str | None:
    first = environment.reset(task)
    if first != episode.first:
        return f"reset shows {first.text!r}, not {episode.first.text!r},"
    return replay_difference(environment, episode.turns)


def _tried_positions(episode: Episode, budget: Budget, task: Task) -> Iterator[tuple[int, int]]:
    """(actions taken before, admissible actions to try), for observations of the whole episode."""
    running = len([turn for turn in episode.turns if not ended(turn.step)])
    positions = range(running + 1)
    for taken in positions[:EARLY_OBSERVATIONS]:
        yield taken, MAX_TRIED_ACTIONS
    later = positions[EARLY_OBSERVATIONS:]
    for taken in sorted(budget.random(task).sample(later, min(len(later), LATE_OBSERVATIONS))):
        yield taken, MAX_TRIED_LATE_ACTIONS


def _change(step: Step, before: Observation, state: object) -> str | None:
    """How a reply without a valid action changed the session; None: it did not."""
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
