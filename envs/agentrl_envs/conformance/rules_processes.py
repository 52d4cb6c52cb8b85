"""The rule that a second process deals the same tasks.

An order that comes from a `set` or from `hash()` depends on the process's hash seed and is the same
as long as one process is looked at. So the tasks are dealt again in a process with another seed.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from agentrl_envs.conformance.play import FEW, SPLITS, Budget, both_splits, open_environment
from agentrl_envs.env import TaskSet

TaskSetFactory = Callable[[], TaskSet]
"""Creates the task set. Must be picklable: a module-level function or a `functools.partial`."""

HASH_SEEDS = (1, 2)
PROCESS_TIMEOUT_S = 600.0

CODE = """
import pickle, sys
sys.path[:] = pickle.load(sys.stdin.buffer)
from agentrl_envs.conformance.rules_processes import print_description
print_description(*pickle.load(sys.stdin.buffer))
"""


def processes_deal_the_same_tasks(
    task_set: TaskSet, budget: Budget, factory: TaskSetFactory
) -> str | None:
    here = json.loads(json.dumps(description(task_set, budget)))
    for seed in HASH_SEEDS:
        there = _description_elsewhere(factory, budget, seed)
        if isinstance(there, str):
            return f"in a process with PYTHONHASHSEED={seed}: {there}"
        for name, value in here.items():
            if there[name] != value:
                return (
                    f"{name} is {str(value)[:120]} here, and {str(there[name])[:120]} in a process "
                    f"with PYTHONHASHSEED={seed}"
                )
    return None


def description(task_set: TaskSet, budget: Budget) -> dict[str, Any]:
    """What has to be the same in every process, by what it is; JSON."""
    found: dict[str, Any] = {
        "instructions()": task_set.instructions(),
        "vocabulary()": task_set.vocabulary(),
    }
    for split in SPLITS:
        found[f"size({split!r})"] = task_set.size(split)
        for index, task in enumerate(budget.tasks(task_set, split)):
            found[f"task({split!r}, {index})"] = [task.id, task.category, dict(task.payload)]
    with open_environment(task_set) as environment:
        for task in both_splits(task_set, budget, FEW):
            first = environment.reset(task)
            found[f"reset of {task.id}"] = [first.text, first.admissible]
    return found


def print_description(factory: TaskSetFactory, budget: Budget) -> None:
    """Runs in the other process."""
    sys.stdout.write(json.dumps(description(factory(), budget)))


def _description_elsewhere(
    factory: TaskSetFactory, budget: Budget, hash_seed: int
) -> dict[str, Any] | str:
    """The description from a process with another hash seed; the error if it failed."""
    process = subprocess.run(
        [sys.executable, "-c", CODE],
        input=pickle.dumps(sys.path) + pickle.dumps((factory, budget)),
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    if process.returncode != 0:
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {process.returncode}"
    found: dict[str, Any] = json.loads(process.stdout)
    return found
