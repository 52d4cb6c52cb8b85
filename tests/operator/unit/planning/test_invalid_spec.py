"""Runs with an invalid spec."""

from demo_run import SPEC, plan, started

from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.planning import actions
from agentrl_operator.planning.observation import Observation


def test_a_run_with_an_invalid_spec_is_pending_until_it_is_corrected():
    wrong = SPEC | {"seed": -1}
    got = plan(wrong)

    assert [type(one) for one in got.actions] == []
    assert (got.status.state, got.status.finished) == ("Pending", False)
    assert got.status.has_condition(Kind.ACCEPTED, "False", Reason.INVALID_SPEC)
    assert got.status.condition(Kind.FAILED) is None
    assert got.status.has_condition(Kind.PROGRESSING, "False", Reason.INVALID_SPEC)
    assert "spec.seed" in got.status.condition(Kind.ACCEPTED).message
    assert got.requeue_s is None
    mended = plan(SPEC, got.status)
    assert [type(one) for one in mended.actions] == [actions.CreateMlflowRun, actions.StartKfpRun]
    assert mended.status.state == "Pending"
    assert mended.status.has_condition(Kind.ACCEPTED, "True", Reason.VALID)
    assert mended.status.condition(Kind.FAILED) is None


def test_an_invalid_edit_does_not_stop_running_work():
    got = plan(SPEC | {"seed": -1}, started(), Observation(kfp=KfpRun(state="RUNNING")))

    assert got.actions == ()
    assert got.status.state == "Running"
    assert got.requeue_s == 5
    assert got.status.has_condition(Kind.ACCEPTED, "False", Reason.INVALID_SPEC)


def test_a_run_outside_the_namespace_of_kfp_is_refused_with_the_fix():
    got = plan(namespace="team-a")

    assert got.status.message == (
        "metadata.namespace: Kubeflow Pipelines runs all pods in the namespace kubeflow; "
        "create the run there"
    )
