"""The rule that compares the tasks of two processes."""

import os
from functools import partial

from process_dependent_tasks import HashSeedOrder, RaisesInOtherProcesses

from agentrl_envs.conformance.check import RULES, check
from agentrl_envs.environments.corridor import CorridorTasks


def test_order_that_depends_on_the_hash_seed_is_found_in_a_second_process():
    report = check(HashSeedOrder(), tasks=20, factory=HashSeedOrder)
    assert list(report.failed()) == ["processes"]
    found = report.failed()["processes"]
    assert found.startswith("task('")
    assert "in a process with PYTHONHASHSEED=" in found


def test_task_set_that_cannot_be_created_in_a_second_process_is_reported():
    factory = partial(RaisesInOtherProcesses, os.getpid())
    found = check(factory(), tasks=2, factory=factory).failed()["processes"]
    assert "PYTHONHASHSEED=1: KeyError: 'only here'" in found


def test_processes_rule_is_skipped_without_a_factory():
    rules = [result.rule.name for result in check(CorridorTasks(), tasks=2).results]
    assert "processes" not in rules
    assert len(rules) == len(RULES)
