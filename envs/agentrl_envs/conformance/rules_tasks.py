"""Rules about tasks: ids, splits, indices, sizes, payloads."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from itertools import pairwise

from agentrl_envs.conformance.play import (
    FEW,
    SPLITS,
    Budget,
    both_splits,
    open_environment,
    play_episode,
)
from agentrl_envs.env import Split, Task, TaskSet, split_of
from agentrl_envs.errors import TaskError

MAX_SIZE_CHECKED = 2_000
"""Tasks of a split that are dealt to check its size."""

FINGERPRINT_EPISODES = 2
"""Episodes by which the content of two tasks is compared."""


def ids_are_content_hashes(task_set: TaskSet, budget: Budget) -> str | None:
    form = re.compile(re.escape(task_set.name) + r"-[0-9a-f]{16}")
    ids: dict[str, str] = {}
    for task in both_splits(task_set, budget):
        if not form.fullmatch(task.id):
            return f"task.id is {task.id!r}; expected {task_set.name}-<16 hex digits>"
        content = json.dumps(dict(task.payload), sort_keys=True)
        if ids.setdefault(content, task.id) != task.id:
            return f"one payload has the ids {ids[content]} and {task.id}"
    return None


def tasks_are_in_their_split(task_set: TaskSet, budget: Budget) -> str | None:
    for split in SPLITS:
        for task in budget.tasks(task_set, split):
            if split_of(task.id) != split:
                return f"{task.id} is dealt in {split}, but its hash is in {split_of(task.id)}"
    return None


def an_index_deals_one_task(task_set: TaskSet, budget: Budget) -> str | None:
    for split in SPLITS:
        first = budget.tasks(task_set, split)
        for index in reversed(range(len(first))):
            again = task_set.task(split, index)
            if again != first[index]:
                return f"task({split!r}, {index}) is {first[index].id}, then {again.id}"
    return None


def sizes_are_right(task_set: TaskSet, budget: Budget) -> str | None:
    for split in SPLITS:
        size = task_set.size(split)
        if size is None:
            continue
        if size < 1:
            return f"size({split!r}) is {size}"
        count = min(size, budget.task_count)
        first = [task_set.task(split, index).id for index in range(count)]
        for index in range(min(count, FEW)):
            if task_set.task(split, size + index).id != first[index]:
                return (
                    f"task({split!r}, {size + index}) is not task({split!r}, {index}), though "
                    f"there are {size}"
                )
        if finding := _repetition(task_set, split, min(size, MAX_SIZE_CHECKED)):
            return f"{finding}, though there are {size}"
    return None


def heldout_tasks_are_distinct(task_set: TaskSet, budget: Budget) -> str | None:
    heldout = [task.id for task in budget.tasks(task_set, "heldout")]
    for index, task_id in enumerate(heldout):
        if task_id in heldout[:index]:
            return f"held-out tasks {heldout.index(task_id)} and {index} are both {task_id}"
    both = set(heldout) & {task.id for task in budget.tasks(task_set, "train")}
    return f"{min(both)} is in both splits" if both else None


def no_content_is_in_both_splits(task_set: TaskSet, budget: Budget) -> str | None:
    """Compares tasks by what an agent sees and by the state, since ids can hide equal content."""
    heldout = {_fingerprint(task_set, task): task for task in budget.tasks(task_set, "heldout")}
    for task in budget.tasks(task_set, "train"):
        same = heldout.get(_fingerprint(task_set, task))
        if same is not None:
            return f"{task.id} (train) and {same.id} (heldout) are played alike"
    return None


def payloads_travel(task_set: TaskSet, budget: Budget) -> str | None:
    for task in both_splits(task_set, budget, FEW):
        received = replace(task, payload=json.loads(json.dumps(dict(task.payload))))
        if received.payload != dict(task.payload):
            return f"{task.id}: the payload is not the same after a round trip through JSON"
        with open_environment(task_set) as one, open_environment(task_set) as other:
            first, second = one.reset(task), other.reset(received)
        if first != second:
            return f"{task.id}: reset shows {second.text!r}, and {first.text!r} before JSON"
    return None


def foreign_payloads_are_refused(task_set: TaskSet, budget: Budget) -> str | None:
    foreign = Task(
        id=f"{task_set.name}-0123456789abcdef", category="foreign", payload={"of": "another world"}
    )
    with open_environment(task_set) as environment:
        try:
            shown = environment.reset(foreign)
        except TaskError:
            return None
    return f"reset took the payload {foreign.payload} and shows {shown.text!r}"


def forged_tasks_are_refused(task_set: TaskSet, budget: Budget) -> str | None:
    """A payload under the id of another task would be scored as that task."""
    for split in SPLITS:
        tasks = budget.tasks(task_set, split, FEW)
        for task, other in pairwise(tasks):
            if task.id == other.id:
                continue
            with open_environment(task_set) as environment:
                try:
                    environment.reset(replace(task, payload=other.payload))
                except TaskError:
                    continue
            return f"reset took the payload of {other.id} under the id {task.id}"
    return None


def _repetition(task_set: TaskSet, split: Split, count: int) -> str | None:
    """A repetition that shows a size to be too large: of any held-out task, or of the whole order
    of training tasks, where single repeats are allowed."""
    ids = [task_set.task(split, index).id for index in range(count)]
    if split == "heldout":
        seen: dict[str, int] = {}
        for index, task_id in enumerate(ids):
            if seen.setdefault(task_id, index) != index:
                return f"task({split!r}, {index}) is task({split!r}, {seen[task_id]}) again"
        return None
    for period in range(1, count // 2 + 1):
        if ids[period] == ids[0] and ids[period:] == ids[: count - period]:
            return f"task({split!r}, {period}) and all that follow repeat those from 0 on"
    return None


def _fingerprint(task_set: TaskSet, task: Task) -> tuple[object, ...]:
    """What distinguishes tasks from outside: first observation, state and a few random episodes.
    The actions do not depend on the task id."""
    with open_environment(task_set) as environment:
        first = environment.reset(task)
        state = environment.step("").state
        episodes = [
            play_episode(environment, task, random.Random(number))
            for number in range(FINGERPRINT_EPISODES)
        ]
    played = [
        (turn.action, turn.step.observation.text, turn.step.reward)
        for episode in episodes
        for turn in episode.turns
    ]
    return (first.text, first.admissible, state, *played)
