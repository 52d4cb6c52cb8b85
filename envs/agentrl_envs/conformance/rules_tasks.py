"""Rules about tasks: ids, splits, indices, payloads."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from agentrl_envs.conformance.play import FEW, SPLITS, Effort, Opened, both_splits
from agentrl_envs.env import Task, TaskSet, split_of
from agentrl_envs.errors import TaskError


def ids_are_content_hashes(task_set: TaskSet, effort: Effort) -> str | None:
    form = re.compile(re.escape(task_set.name) + r"-[0-9a-f]{16}")
    ids: dict[str, str] = {}
    for task in both_splits(task_set, effort):
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
    for task in both_splits(task_set, effort, FEW):
        travelled = replace(task, payload=json.loads(json.dumps(dict(task.payload))))
        if travelled.payload != dict(task.payload):
            return f"{task.id}: the payload is not the same after a journey as JSON"
        with Opened(task_set) as here, Opened(task_set) as there:
            first, second = here.reset(task), there.reset(travelled)
        if first != second:
            return f"{task.id}: reset shows {second.text!r}, and {first.text!r} before the journey"
    return None


def foreign_payloads_are_refused(task_set: TaskSet, effort: Effort) -> str | None:
    foreign = Task(
        id=f"{task_set.name}-0123456789abcdef", category="foreign", payload={"of": "another world"}
    )
    with Opened(task_set) as environment:
        try:
            shown = environment.reset(foreign)
        except TaskError:
            return None
    return f"reset took the payload {foreign.payload} and shows {shown.text!r}"
