"""Suspension and deadline of runs."""

from datetime import timedelta

from demo_run import NOW, SERVED, SPEC, UID, plan, started

from agentrl_components.schedule.record import Decision
from agentrl_operator.api import resource
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.planning import actions
from agentrl_operator.planning.observation import Observation


def test_a_suspended_run_stops_and_resumes_with_a_new_attempt():
    suspended = SPEC | {"suspend": True}
    later = NOW + timedelta(seconds=30)

    asked = plan(suspended, started(), Observation(kfp=KfpRun(state="RUNNING"), pods=3), now=later)
    assert asked.actions == (actions.TerminateKfpRun(run_id=resource.run_id(UID, 0, 0)),)
    assert asked.status.has_condition(Kind.SUSPENDED, "False", Reason.SUSPENDING)

    stopping = plan(suspended, asked.status, Observation(kfp=KfpRun(state="FAILED"), pods=1))
    assert stopping.actions == ()
    assert stopping.status.has_condition(Kind.SUSPENDED, "False", Reason.SUSPENDING)

    over = Observation(kfp=KfpRun(state="FAILED"), pods=0)
    done = plan(suspended, stopping.status, over, now=later)
    assert done.status.state == "Suspended"
    assert done.status.has_condition(Kind.SUSPENDED, "True", Reason.SUSPENDED)
    assert (done.status.active_seconds, done.status.active_time) == (30, None)
    assert done.requeue_s is None

    resumed = plan(SPEC, done.status, over, now=later)
    assert (resumed.status.attempt, resumed.status.failures) == (1, 0)
    assert resumed.status.has_condition(Kind.SUSPENDED, "False", Reason.NOT_SUSPENDED)
    going = plan(SPEC, resumed.status, Observation(attempt=1), now=later)
    assert going.actions == (
        actions.StartKfpRun(run_id=resource.run_id(UID, 0, 1), phase=0, attempt=1),
    )


def test_a_run_whose_workflow_was_lost_while_it_was_suspended_resumes_without_a_failure():
    lost = Observation(kfp=KfpRun(state="CANCELING"), workflow="lost", pods=0)
    done = plan(SPEC | {"suspend": True}, started(), lost)
    assert done.status.state == "Suspended"

    resumed = plan(SPEC, done.status, lost)
    assert (resumed.status.attempt, resumed.status.failures) == (1, 0)
    going = plan(SPEC, resumed.status, Observation(attempt=1))
    assert going.actions == (
        actions.StartKfpRun(run_id=resource.run_id(UID, 0, 1), phase=0, attempt=1),
    )


def test_a_suspension_withdrawn_early_is_completed_first():
    status = started().with_condition(
        Kind.SUSPENDED, "False", Reason.SUSPENDING, "work is stopping", NOW
    )
    over = plan(SPEC, status, Observation(kfp=KfpRun(state="FAILED"), pods=0))

    assert over.status.has_condition(Kind.SUSPENDED, "True")
    assert over.status.failures == 0
    assert over.requeue_s == 0


def test_a_run_created_suspended_starts_nothing():
    got = plan(SERVED | {"suspend": True})

    assert got.actions == ()
    assert got.status.state == "Suspended"


def test_a_run_out_of_time_is_stopped_and_then_fails():
    spec = SPEC | {"activeDeadlineSeconds": 60}
    status = started(active_seconds=50)
    late = NOW + timedelta(seconds=10)

    before = plan(spec, status, Observation(kfp=KfpRun(state="RUNNING")), now=NOW)
    assert before.actions == ()
    stopping = plan(spec, status, Observation(kfp=KfpRun(state="RUNNING")), now=late)
    assert [type(one) for one in stopping.actions] == [actions.TerminateKfpRun]
    over = plan(spec, stopping.status, Observation(kfp=KfpRun(state="FAILED"), pods=0), now=late)
    assert over.status.has_condition(Kind.FAILED, "True", Reason.DEADLINE_EXCEEDED)


def test_a_phase_finished_before_the_deadline_counts_when_observed_late():
    spec = SPEC | {"activeDeadlineSeconds": 60}
    decision = Decision(action="finish", phase=1, max_turns=6, reason="done")
    observed = Observation(kfp=KfpRun(state="SUCCEEDED"), decision=decision)
    late = NOW + timedelta(seconds=61)

    assert plan(spec, started(phase_index=1), observed, now=late).status.state == "Succeeded"
