"""Failed attempts: what is retried, when, and what is permanent."""

from dataclasses import replace
from datetime import timedelta

from demo_run import NOW, UID, plan, started

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import RunState
from agentrl_operator.api import resource
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.planning import actions
from agentrl_operator.planning.observation import Observation


def test_a_permanent_failure_terminates_the_kfp_run():
    state = RunState(status="failed", reason="ModelError", message="train: none", final=True)
    observed = Observation(kfp=KfpRun(state="RUNNING"), run_state=state)
    got = plan(status=started(), observed=observed)
    stop = actions.TerminateKfpRun(run_id=resource.run_id(UID, 0, 0))
    assert got.actions == (stop,)
    assert got.status.message == "ModelError: train: none; stopping the KFP run"

    stopping = replace(observed, kfp=KfpRun(state="CANCELING"))
    assert plan(status=got.status, observed=stopping).actions == ()
    gone = replace(observed, kfp=KfpRun(state="CANCELED"), pods=0)
    after = plan(status=got.status, observed=gone).status
    assert (after.state, after.message) == ("Failed", "ModelError: train: none")


def test_a_phase_that_decides_to_stop_ends_by_itself():
    state = RunState(status="failed", reason="CollapseError", message="entropy", final=True)
    observed = Observation(kfp=KfpRun(state="RUNNING"), run_state=state)
    assert plan(status=started(), observed=observed).actions == ()


def test_a_stop_decision_fails_the_run():
    decision = Decision(action="stop", phase=0, max_turns=3, reason="entropy below 0.02")
    observed = Observation(kfp=KfpRun(state="FAILED"), decision=decision)
    got = plan(status=started(), observed=observed)

    assert got.status.has_condition(Kind.FAILED, "True", Reason.COLLAPSE_ERROR)
    assert got.status.message == "entropy below 0.02"


def test_a_failed_attempt_is_counted_and_retried_after_a_delay():
    failed = Observation(kfp=KfpRun(state="FAILED"), pods=0)
    got = plan(status=started(), observed=failed)

    assert got.actions == ()
    assert (got.status.attempt, got.status.failures) == (1, 1)
    assert got.status.retry_time == NOW + timedelta(seconds=10)
    assert got.requeue_s == 10
    early = plan(status=got.status, observed=Observation(attempt=1), now=NOW + timedelta(seconds=4))
    assert (early.actions, early.requeue_s) == ((), 6)
    due = plan(status=got.status, observed=Observation(attempt=1), now=NOW + timedelta(seconds=10))
    assert due.actions == (
        actions.StartKfpRun(run_id=resource.run_id(UID, 0, 1), phase=0, attempt=1),
    )


def test_no_attempt_begins_while_pods_of_the_previous_one_run():
    got = plan(status=started(), observed=Observation(kfp=KfpRun(state="FAILED"), pods=2))

    assert got.actions == ()
    assert got.status.attempt == 0
    assert got.status.has_condition(Kind.PROGRESSING, "True", Reason.STOPPING)


def test_exceeding_the_backoff_limit_fails_the_run():
    observed = Observation(attempt=1, kfp=KfpRun(state="FAILED"), pods=0)
    got = plan(status=started(attempt=1, failures=1), observed=observed)

    assert got.status.has_condition(Kind.FAILED, "True", Reason.BACKOFF_LIMIT_EXCEEDED)
    assert got.status.message == (
        "2 attempts at phase 1 of 2, 3 turns, attempt 2 failed, the last: the KFP run ended FAILED"
    )


def test_a_permanent_failure_fails_the_run_at_once():
    state = RunState(status="failed", message="no such model", reason="ModelError", final=True)
    got = plan(
        status=started(), observed=Observation(kfp=KfpRun(state="FAILED"), pods=0, run_state=state)
    )

    assert got.status.has_condition(Kind.FAILED, "True", Reason.MODEL_ERROR)
    assert got.status.message == "ModelError: no such model"


def test_an_attempt_whose_workflow_is_lost_is_retried():
    observed = Observation(kfp=KfpRun(state="RUNNING"), workflow="lost", pods=0)
    got = plan(status=started(), observed=observed)

    assert got.actions == (actions.TerminateKfpRun(run_id=resource.run_id(UID, 0, 0)),)
    assert (got.status.attempt, got.status.failures) == (1, 1)
