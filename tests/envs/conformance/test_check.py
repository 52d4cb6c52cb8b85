"""The rules of the checker, by task sets that violate them, and its report."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from blocking_tasks import BlockingTasks
from broken_task_sets import ends, sessions, tasks, text

from agentrl_envs.calls.watch import CallWatch
from agentrl_envs.client.blocking import BlockingTaskSet
from agentrl_envs.conformance.check import RULES, check
from agentrl_envs.conformance.play import WatchedEnvironment
from agentrl_envs.environments.corridor import CorridorTasks
from agentrl_envs.server.app import ServerOptions, create_app
from agentrl_envs.server.execution.thread_executor import ThreadExecutor
from agentrl_envs.server.run import running

VIOLATIONS = [
    *tasks.VIOLATIONS,
    *sessions.VIOLATIONS,
    *ends.VIOLATIONS,
    *text.VIOLATIONS,
]


@pytest.mark.parametrize(
    ("task_set", "rule", "finding"),
    VIOLATIONS,
    ids=[f"{rule}-{type(t).__name__}" for t, rule, _ in VIOLATIONS],
)
def test_violation_is_found_by_its_rule(task_set, rule, finding):
    assert finding in check(task_set, tasks=23).failed()[rule]


def test_every_rule_has_a_task_set_that_violates_it():
    assert {rule.name for rule in RULES} == {rule for _, rule, _ in VIOLATIONS}


def test_corridor_passes_every_rule():
    report = check(CorridorTasks(), factory=CorridorTasks)
    assert report.passed, str(report)
    assert str(report).startswith(f"corridor: 0 of {len(RULES) + 1} rules broken")


def test_corridor_passes_every_rule_over_http():
    corridor = CorridorTasks()
    app = create_app(corridor, ThreadExecutor(corridor), ServerOptions())
    with running(app) as url, BlockingTaskSet(url) as remote:
        report = check(remote, tasks=2)
    assert report.passed, str(report)


def test_corridor_payloads_survive_a_json_round_trip():
    payload = CorridorTasks().task("train", 0).payload
    assert json.loads(json.dumps(dict(payload))) == payload


def test_the_result_of_every_rule_is_reported_as_it_is_known():
    seen = []
    report = check(CorridorTasks(), tasks=2, on_result=seen.append)
    assert tuple(seen) == report.results


def test_a_call_that_hangs_is_reported_with_its_task():
    noted, notes = threading.Event(), []
    watch = CallWatch(lambda note: (notes.append(note), noted.set()), first_s=0.01)
    tasks = BlockingTasks()
    task = tasks.task("train", 0)
    environment = WatchedEnvironment(tasks, watch)
    environment.reset(task)
    with ThreadPoolExecutor() as threads, tasks.opened_on_exit():
        threads.submit(environment.step, "wait")
        assert noted.wait(60)
    assert notes[0].startswith(f"environment corridor: step of task {task.id} has been running")


def test_report_shows_the_finding_below_its_rule():
    lines = str(check(sessions.RaisesOnSecondClose(), tasks=5)).splitlines()
    broken = next(n for n, line in enumerate(lines) if "BROKEN" in line)
    assert "close" in lines[broken]
    assert "-> raised RuntimeError: closed already" in lines[broken + 1]
