"""Deletion of runs, by a user or after their time to live."""

from datetime import timedelta

from demo_run import NOW, SPEC, UID, plan, started

from agentrl_operator.api import resource
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.planning import actions
from agentrl_operator.planning.observation import Observation, Unknown


def test_a_finished_run_is_deleted_after_its_time_to_live():
    spec = SPEC | {"ttlSecondsAfterFinished": 60}
    done = started(phase_index=1, completion_time=NOW, mlflow_finished=True).with_(
        state="Succeeded"
    )

    early = plan(spec, done, now=NOW + timedelta(seconds=20))
    assert (early.actions, early.requeue_s, early.is_due) == ((), 40, True)
    due = plan(spec, done, now=NOW + timedelta(seconds=60))
    assert due.actions == (actions.DeleteResource(),)
    assert plan(SPEC, done, now=NOW + timedelta(days=9)).actions == ()


def test_a_finished_run_whose_manifest_is_refused_later_is_deleted_after_its_time_to_live():
    refused = SPEC | {"ttlSecondsAfterFinished": 60, "seed": -1}
    done = started(phase_index=1, completion_time=NOW, mlflow_finished=True).with_(
        state="Succeeded"
    )
    assert plan(refused, done, now=NOW + timedelta(seconds=20)).requeue_s == 40
    due = plan(refused, done, now=NOW + timedelta(seconds=60))
    assert due.actions == (actions.DeleteResource(),)


def test_the_finalizer_is_removed_when_the_work_has_stopped():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    run_id = resource.run_id(UID, 0, 0)

    running = plan(SPEC, started(), Observation(kfp=KfpRun(state="RUNNING"), pods=2), **deleted)
    assert running.actions == (actions.TerminateKfpRun(run_id=run_id),)
    pods = plan(SPEC, started(), Observation(kfp=KfpRun(state="FAILED"), pods=1), **deleted)
    assert pods.actions == ()
    over = plan(SPEC, started(), Observation(kfp=KfpRun(state="FAILED"), pods=0), **deleted)
    assert over.actions == (
        actions.FinishMlflowRun(run_id="m1", status="KILLED"),
        actions.RemoveFinalizer(),
    )


def test_a_deletion_stops_every_run_of_the_experiment():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    own, later = resource.run_id(UID, 0, 0), resource.run_id(UID, 1, 0)

    def at(seconds, kfp, **others):
        states = {
            resource.run_id(UID, 1, n): KfpRun(state=s) for n, s in enumerate(others.values())
        }
        observed = Observation(kfp=kfp, others=states, pods=1, deleting_s=seconds)
        return plan(SPEC, started(), observed, **deleted)

    done = KfpRun(state="SUCCEEDED")
    both = at(1, KfpRun(state="RUNNING"), later="RUNNING", ended="FAILED")
    assert set(both.actions) == {
        actions.TerminateKfpRun(run_id=own),
        actions.TerminateKfpRun(run_id=later),
    }
    assert both.status.message == "deleting: 2 KFP runs are being stopped"
    assert at(1, done, later="RUNNING").actions == (actions.TerminateKfpRun(run_id=later),)
    assert at(1, done, later="CANCELING").actions == ()
    silent = Unknown(message="KFP: refused")
    assert at(1, silent, later="RUNTIME_STATE_UNSPECIFIED").actions == ()
    assert at(15, silent, later="RUNTIME_STATE_UNSPECIFIED").actions == (
        actions.DeleteWorkflow(run_id=own),
        actions.DeleteWorkflow(run_id=later),
    )
    assert at(1, None, later="RUNNING").actions == (
        actions.DeleteWorkflow(run_id=own),
        actions.TerminateKfpRun(run_id=later),
    )
    assert at(45, done, later="CANCELING").actions == (
        actions.DeleteWorkflow(run_id=own),
        actions.DeleteWorkflow(run_id=later),
    )
    assert actions.RemoveFinalizer() in at(90, done, later="CANCELING").actions


def test_on_delete_deletes_the_data_of_a_deleted_run():
    spec = SPEC | {"storage": {"onDelete": "delete"}}
    got = plan(spec, deletionTimestamp="2026-11-21T12:00:00Z")

    assert got.actions == (
        actions.DeleteKfpRuns(),
        actions.DeleteRunData(),
        actions.RemoveFinalizer(),
    )


def test_a_deletion_stops_waiting_after_its_timeouts():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    gone = Unknown(message="KFP: refused")
    run_id = resource.run_id(UID, 0, 0)

    def at(seconds, pods):
        observed = Observation(kfp=gone, pods=pods, deleting_s=seconds)
        return plan(SPEC, started(), observed, **deleted)

    assert at(5, 2).actions == ()
    assert at(15, 2).actions == (actions.DeleteWorkflow(run_id=run_id),)
    assert [type(one) for one in at(16, 0).actions] == [
        actions.DeleteWorkflow,
        actions.FinishMlflowRun,
        actions.RemoveFinalizer,
    ]
    late = at(90, 2)
    assert [type(one) for one in late.best_effort] == [
        actions.DeleteWorkflow,
        actions.FinishMlflowRun,
    ]
    assert late.actions == (actions.RemoveFinalizer(),)


def test_a_deletion_leaves_the_workflow_to_a_kfp_that_answers_for_a_while():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    run_id = resource.run_id(UID, 0, 0)

    def at(seconds, kfp):
        observed = Observation(kfp=kfp, pods=1, deleting_s=seconds)
        return plan(SPEC, started(), observed, **deleted)

    assert at(30, KfpRun(state="FAILED")).actions == ()
    assert at(45, KfpRun(state="FAILED")).actions == (actions.DeleteWorkflow(run_id=run_id),)
    assert at(1, None).actions == (actions.DeleteWorkflow(run_id=run_id),)


def test_a_deletion_that_no_operator_saw_for_long_is_not_late():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    spec = SPEC | {"storage": {"onDelete": "delete"}}
    late = NOW + timedelta(minutes=11)

    running = Observation(kfp=KfpRun(state="RUNNING"), pods=2)
    stopping = plan(spec, started(), running, now=late, **deleted)
    assert stopping.actions == (actions.TerminateKfpRun(run_id=resource.run_id(UID, 0, 0)),)
    over = Observation(kfp=KfpRun(state="FAILED"), pods=0, deleting_s=1)
    assert plan(spec, started(), over, now=late, **deleted).actions == (
        actions.FinishMlflowRun(run_id="m1", status="KILLED"),
        actions.DeleteKfpRuns(),
        actions.DeleteRunData(),
        actions.RemoveFinalizer(),
    )


def test_a_deletion_gives_up_a_store_that_could_not_be_emptied_for_ten_minutes():
    spec = SPEC | {"storage": {"onDelete": "delete"}}
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}

    assert (
        actions.DeleteRunData()
        in plan(spec, observed=Observation(deleting_s=599), **deleted).actions
    )
    got = plan(spec, observed=Observation(deleting_s=600), **deleted)
    assert got.actions == (actions.RemoveFinalizer(),)
    (told,) = got.best_effort
    assert told.message.startswith("spec.storage.onDelete: the data is kept, as it could not be")


def test_a_deletion_names_a_pod_whose_node_does_not_answer():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    stuck = "train: NodeLost: pod demo-1 on node a does not end"
    observed = Observation(kfp=KfpRun(state="FAILED"), pods=1, stuck_pods=stuck)
    got = plan(SPEC, started(), observed, **deleted)

    assert got.status.message == f"deleting: 1 pods have not ended; {stuck}"
