from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agentrl_components.state import Found, State, Verdict
from agentrl_operator import actions, children, resource
from agentrl_operator import status as statuses
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.observed import KfpRun, Observed, Servers, Unknown
from agentrl_operator.reconcile import reconcile
from agentrl_operator.status import Status
from agentrl_pipelines.platform import Kfp, Mlflow, Platform

UID = "6a1b2c3d-0000-4000-8000-000000000001"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
PLATFORM = Platform(
    kfp=Kfp(ui_url="http://kfp.test"), tracking=Mlflow(uri="http://mlflow.test"), poll_seconds=5
)
SPEC = {
    "environments": [{"name": "babyai", "url": "http://babyai.test"}],
    "horizon": {
        "phases": [{"maxTurns": 3, "iterations": 2}, {"maxTurns": 6, "iterations": 4}],
    },
    "backoffLimit": 1,
}
SERVED = SPEC | {"environments": [{"name": "babyai", "builtin": "babyai"}]}


def run(spec=SPEC, **metadata):
    body = {
        "apiVersion": "agentrl.dev/v1alpha1",
        "kind": "AgentRLRun",
        "metadata": {
            "name": "demo",
            "namespace": "kubeflow",
            "uid": UID,
            "generation": 2,
            "finalizers": ["agentrl.dev/run"],
        }
        | metadata,
        "spec": spec,
    }
    return resource.read(body, PLATFORM)


def plan(spec=SPEC, status=None, observed=None, now=NOW, **metadata):
    return reconcile(
        run(spec, **metadata), status or Status(), observed or Observed(), PLATFORM, now
    )


def started(**fields):
    return Status(phase="Running", start_time=NOW, active_time=NOW, **{"mlflow_run": "m1"} | fields)


def test_a_new_run_is_held_tracked_and_its_first_phase_started():
    got = plan(finalizers=[])

    run_id = resource.run_id(UID, 0, 0)
    assert got.actions == (
        actions.Hold(),
        actions.OpenTracker(),
        actions.StartRun(run_id=run_id, phase=0, attempt=0, first=True),
    )
    assert statuses.written(got.status) == {
        "phase": "Pending",
        "observedGeneration": 2,
        "phaseIndex": 0,
        "attempt": 0,
        "failures": 0,
        "horizon": 3,
        "iterations": 6,
        "kfpRun": run_id,
        "kfpUrl": f"http://kfp.test/#/runs/details/{run_id}",
        "message": "submitting phase 1 of 2, 3 turns",
        "startTime": "2026-11-21T12:00:00Z",
        "activeTime": "2026-11-21T12:00:00Z",
        "activeSeconds": 0,
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": "2026-11-21T12:00:00Z",
                "observedGeneration": 2,
            }
            for kind, status, reason, message in [
                ("Accepted", "True", "Valid", "the manifest can be run"),
                (
                    "EnvironmentsReady",
                    "True",
                    "NoneServed",
                    "no environment needs a server of its own",
                ),
                ("Progressing", "True", "Submitting", "submitting phase 1 of 2, 3 turns"),
                ("Suspended", "False", "NotSuspended", "the run is not suspended"),
            ]
        ],
    }


def test_the_id_of_a_kfp_run_is_uuid5_of_uid_phase_and_attempt():
    assert resource.run_id(UID, 0, 0) == "09e0d19f-3853-5b1d-b540-ac800713db7e"
    assert resource.run_id(UID, 1, 2) == resource.run_id(UID, 1, 2)
    assert (
        len({resource.run_id(UID, phase, attempt) for phase in (0, 1) for attempt in (0, 1)}) == 4
    )


def test_environments_that_are_not_there_are_made_with_their_token_before_the_run_starts():
    kinds = [type(action) for action in plan(SERVED).actions]

    assert kinds == [
        actions.ApplyToken,
        actions.ApplyEnvironment,
        actions.OpenTracker,
        actions.StartRun,
    ]


def test_servers_that_answer_are_left_alone_and_older_ones_brought_up_to_date():
    made = run(SERVED)
    fingerprint = children.fingerprint(made, made.run, made.run.spec.environments[0], PLATFORM)
    name = "demo-6a1b2c3d-babyai"

    def seen(manifest, ready):
        servers = {name: Servers(manifest=manifest, ready=ready, wanted=1)}
        return plan(SERVED, started(), Observed(kfp=KfpRun(state="RUNNING"), servers=servers))

    assert seen(fingerprint, 1).actions == ()
    assert seen(fingerprint, 1).status.says(Kind.ENVIRONMENTS_READY, "True", Reason.READY)
    waiting = seen(fingerprint, 0).status.condition(Kind.ENVIRONMENTS_READY)
    assert (waiting.status, waiting.message) == ("False", "babyai: 0 of 1 servers answer")
    assert seen("older", 1).actions == (
        actions.ApplyToken(servers=(name,)),
        actions.ApplyEnvironment(environment="babyai"),
    )


def test_each_attempt_makes_anew_what_somebody_deleted_and_nobody_watches():
    made = run(SERVED)
    fingerprint = children.fingerprint(made, made.run, made.run.spec.environments[0], PLATFORM)
    name = "demo-6a1b2c3d-babyai"
    servers = {name: Servers(manifest=fingerprint, ready=1, wanted=1)}

    assert plan(SERVED, started(), Observed(servers=servers)).actions[:2] == (
        actions.ApplyToken(servers=(name,)),
        actions.ApplyEnvironment(environment="babyai"),
    )


def test_a_run_at_work_shows_what_its_store_says():
    standing = State(
        status="running",
        message="iteration 3 of 6",
        phase=0,
        max_turns=3,
        iteration=3,
        heldout=Found(name="after", success=0.812, low=0.771, high=0.849, n=400),
        best=2,
        tokens=1234.0,
        environment_seconds=5.6,
        device_seconds=7.8,
    )
    got = plan(status=started(), observed=Observed(kfp=KfpRun(state="RUNNING"), standing=standing))

    assert got.actions == ()
    assert got.requeue_s == 5
    assert got.status.phase == "Running"
    assert got.status.success == "81% [77, 85]"
    assert got.status.iteration == 3
    assert (
        got.status.best_checkpoint
        == "s3://mlpipeline/agentrl/kubeflow/demo-6a1b2c3d/checkpoints/000002/"
    )
    assert got.status.cost.model_dump() == {
        "tokens": 1234,
        "environment_seconds": 5,
        "device_seconds": 7,
    }
    assert got.status.message == "phase 1 of 2, 3 turns: iteration 3 of 6"


def test_what_keeps_pods_from_work_is_told():
    kfp, trouble = KfpRun(state="RUNNING"), "train: ImagePullBackOff: no image"
    got = plan(status=started(), observed=Observed(kfp=kfp, trouble=trouble))
    assert got.status.message == f"phase 1 of 2, 3 turns: {trouble}"

    ended = Observed(kfp=KfpRun(state="FAILED"), pods=0, trouble="train: OOMKilled")
    got = plan(status=started(), observed=ended)
    assert got.status.message == (
        "the KFP run ended FAILED: train: OOMKilled; trying again in 10 s"
    )


def test_a_stage_that_failed_for_good_is_not_tried_again_by_argo():
    standing = State(status="failed", reason="ModelError", message="train: none", final=True)
    observed = Observed(kfp=KfpRun(state="RUNNING"), standing=standing)
    got = plan(status=started(), observed=observed)
    stop = actions.TerminateRun(run_id=resource.run_id(UID, 0, 0))
    assert got.actions == (stop,)
    assert got.status.message == "ModelError: train: none; stopping the KFP run"

    stopping = replace(observed, kfp=KfpRun(state="CANCELING"))
    assert plan(status=got.status, observed=stopping).actions == ()
    gone = replace(observed, kfp=KfpRun(state="CANCELED"), pods=0)
    after = plan(status=got.status, observed=gone).status
    assert (after.phase, after.message) == ("Failed", "ModelError: train: none")


def test_a_phase_that_decides_to_stop_ends_by_itself():
    standing = State(status="failed", reason="CollapseError", message="entropy", final=True)
    observed = Observed(kfp=KfpRun(state="RUNNING"), standing=standing)
    assert plan(status=started(), observed=observed).actions == ()


def test_a_phase_that_is_done_is_followed_by_the_next():
    verdict = Verdict(action="advance", phase=1, max_turns=6, reason="on")
    observed = Observed(kfp=KfpRun(state="SUCCEEDED"), verdict=verdict)
    got = plan(status=started(), observed=observed)

    assert got.requeue_s == 0
    assert (got.status.phase_index, got.status.attempt) == (1, 0)
    after = plan(status=got.status)
    assert after.actions == (
        actions.StartRun(run_id=resource.run_id(UID, 1, 0), phase=1, attempt=0),
    )
    assert after.status.horizon == 6


def test_a_finished_schedule_succeeds_and_closes_the_tracker():
    observed = Observed(
        kfp=KfpRun(state="SUCCEEDED"),
        verdict=Verdict(
            action="finish",
            phase=1,
            max_turns=6,
            reason="the schedule is done after 6 iterations",
        ),
        servers={"demo-babyai": Servers(manifest="x", ready=1, wanted=1)},
    )
    got = plan(status=started(phase_index=1), observed=observed)

    assert got.actions == (
        actions.RemoveServers(deployment="demo-babyai"),
        actions.CloseTracker(run_id="m1", status="FINISHED"),
    )
    assert got.status.phase == "Succeeded"
    assert got.status.completion_time == NOW
    assert got.status.says(Kind.SUCCEEDED, "True", Reason.SCHEDULE_DONE)
    assert got.status.says(Kind.PROGRESSING, "False", Reason.ENDED)


def test_an_alarm_that_said_stop_fails_the_run():
    verdict = Verdict(action="stop", phase=0, max_turns=3, reason="entropy below 0.02")
    observed = Observed(kfp=KfpRun(state="FAILED"), verdict=verdict)
    got = plan(status=started(), observed=observed)

    assert got.status.says(Kind.FAILED, "True", Reason.COLLAPSE_ERROR)
    assert got.status.message == "entropy below 0.02"


def test_a_failed_attempt_is_tried_again_later_and_counted():
    failed = Observed(kfp=KfpRun(state="FAILED"), pods=0)
    got = plan(status=started(), observed=failed)

    assert got.actions == ()
    assert (got.status.attempt, got.status.failures) == (1, 1)
    assert got.status.retry_time == NOW + timedelta(seconds=10)
    assert got.requeue_s == 10
    early = plan(status=got.status, observed=Observed(attempt=1), now=NOW + timedelta(seconds=4))
    assert (early.actions, early.requeue_s) == ((), 6)
    due = plan(status=got.status, observed=Observed(attempt=1), now=NOW + timedelta(seconds=10))
    assert due.actions == (actions.StartRun(run_id=resource.run_id(UID, 0, 1), phase=0, attempt=1),)


def test_no_attempt_begins_while_pods_of_the_one_before_work():
    got = plan(status=started(), observed=Observed(kfp=KfpRun(state="FAILED"), pods=2))

    assert got.actions == ()
    assert got.status.attempt == 0
    assert got.status.says(Kind.PROGRESSING, "True", Reason.STOPPING)


def test_one_failure_more_than_the_limit_fails_the_run():
    observed = Observed(attempt=1, kfp=KfpRun(state="FAILED"), pods=0)
    got = plan(status=started(attempt=1, failures=1), observed=observed)

    assert got.status.says(Kind.FAILED, "True", Reason.BACKOFF_LIMIT_EXCEEDED)
    assert got.status.message == (
        "2 attempts at phase 1 of 2, 3 turns, attempt 2 failed, the last: the KFP run ended FAILED"
    )


def test_a_failure_that_would_come_again_is_final_at_once():
    standing = State(status="failed", message="no such model", reason="ModelError", final=True)
    got = plan(
        status=started(), observed=Observed(kfp=KfpRun(state="FAILED"), pods=0, standing=standing)
    )

    assert got.status.says(Kind.FAILED, "True", Reason.MODEL_ERROR)
    assert got.status.message == "ModelError: no such model"


def test_a_run_whose_workflow_vanished_is_tried_again():
    observed = Observed(kfp=KfpRun(state="RUNNING"), workflow="lost", pods=0)
    got = plan(status=started(), observed=observed)

    assert got.actions == (actions.TerminateRun(run_id=resource.run_id(UID, 0, 0)),)
    assert (got.status.attempt, got.status.failures) == (1, 1)


def test_nothing_is_decided_while_kfp_or_the_store_does_not_answer():
    silent = plan(status=started(), observed=Observed(kfp=Unknown(why="KFP: refused")))
    assert silent.actions == ()
    assert silent.status.says(Kind.PROGRESSING, "Unknown", Reason.KFP_UNAVAILABLE)
    assert silent.status.attempt == 0

    observed = Observed(kfp=KfpRun(state="SUCCEEDED"), verdict=Unknown(why="store: refused"))
    blind = plan(status=started(), observed=observed)
    assert blind.status.says(Kind.PROGRESSING, "Unknown", Reason.STORE_UNAVAILABLE)
    assert blind.status.phase_index == 0


def test_a_suspended_run_stops_waits_for_its_pods_and_goes_on_with_a_new_attempt():
    suspended = SPEC | {"suspend": True}
    later = NOW + timedelta(seconds=30)

    asked = plan(suspended, started(), Observed(kfp=KfpRun(state="RUNNING"), pods=3), now=later)
    assert asked.actions == (actions.TerminateRun(run_id=resource.run_id(UID, 0, 0)),)
    assert asked.status.says(Kind.SUSPENDED, "False", Reason.SUSPENDING)

    stopping = plan(suspended, asked.status, Observed(kfp=KfpRun(state="FAILED"), pods=1))
    assert stopping.actions == ()
    assert stopping.status.says(Kind.SUSPENDED, "False", Reason.SUSPENDING)

    over = Observed(kfp=KfpRun(state="FAILED"), pods=0)
    done = plan(suspended, stopping.status, over, now=later)
    assert done.status.phase == "Suspended"
    assert done.status.says(Kind.SUSPENDED, "True", Reason.SUSPENDED)
    assert (done.status.active_seconds, done.status.active_time) == (30, None)
    assert done.requeue_s is None

    resumed = plan(SPEC, done.status, over, now=later)
    assert (resumed.status.attempt, resumed.status.failures) == (1, 0)
    assert resumed.status.says(Kind.SUSPENDED, "False", Reason.NOT_SUSPENDED)
    going = plan(SPEC, resumed.status, Observed(attempt=1), now=later)
    assert going.actions == (
        actions.StartRun(run_id=resource.run_id(UID, 0, 1), phase=0, attempt=1),
    )


def test_a_suspension_taken_back_half_way_is_carried_through_first():
    status = started().told(Kind.SUSPENDED, "False", Reason.SUSPENDING, "work is stopping", NOW)
    over = plan(SPEC, status, Observed(kfp=KfpRun(state="FAILED"), pods=0))

    assert over.status.says(Kind.SUSPENDED, "True")
    assert over.status.failures == 0
    assert over.requeue_s == 0


def test_a_run_made_suspended_starts_nothing():
    got = plan(SERVED | {"suspend": True})

    assert got.actions == ()
    assert got.status.phase == "Suspended"


def test_a_run_out_of_time_is_stopped_and_then_fails():
    spec = SPEC | {"activeDeadlineSeconds": 60}
    status = started(active_seconds=50)
    late = NOW + timedelta(seconds=10)

    before = plan(spec, status, Observed(kfp=KfpRun(state="RUNNING")), now=NOW)
    assert before.actions == ()
    stopping = plan(spec, status, Observed(kfp=KfpRun(state="RUNNING")), now=late)
    assert [type(one) for one in stopping.actions] == [actions.TerminateRun]
    over = plan(spec, stopping.status, Observed(kfp=KfpRun(state="FAILED"), pods=0), now=late)
    assert over.status.says(Kind.FAILED, "True", Reason.DEADLINE_EXCEEDED)


def test_a_phase_that_was_done_in_time_counts_although_it_is_looked_at_late():
    spec = SPEC | {"activeDeadlineSeconds": 60}
    verdict = Verdict(action="finish", phase=1, max_turns=6, reason="done")
    observed = Observed(kfp=KfpRun(state="SUCCEEDED"), verdict=verdict)
    late = NOW + timedelta(seconds=61)

    assert plan(spec, started(phase_index=1), observed, now=late).status.phase == "Succeeded"


def test_a_mistake_is_shown_and_nothing_starts_until_it_is_corrected():
    wrong = SPEC | {"seed": -1}
    got = plan(wrong)

    assert [type(one) for one in got.actions] == []
    assert got.status.phase == "Failed"
    assert got.status.says(Kind.ACCEPTED, "False", Reason.INVALID_SPEC)
    assert got.status.says(Kind.FAILED, "True", Reason.INVALID_SPEC)
    assert "spec.seed" in got.status.condition(Kind.ACCEPTED).message
    assert got.requeue_s is None
    mended = plan(SPEC, got.status)
    assert [type(one) for one in mended.actions] == [actions.OpenTracker, actions.StartRun]
    assert mended.status.phase == "Pending"
    assert mended.status.says(Kind.FAILED, "False")


def test_a_mistake_made_later_leaves_running_work_alone():
    got = plan(SPEC | {"seed": -1}, started(), Observed(kfp=KfpRun(state="RUNNING")))

    assert got.actions == ()
    assert got.status.phase == "Running"
    assert got.status.says(Kind.ACCEPTED, "False", Reason.INVALID_SPEC)


def test_a_run_outside_the_namespace_of_kfp_is_refused_with_the_fix():
    got = plan(namespace="team-a")

    assert got.status.message == (
        "metadata.namespace: Kubeflow Pipelines runs its pods in kubeflow; make the run there"
    )


def test_a_finished_run_goes_when_its_time_is_over():
    spec = SPEC | {"ttlSecondsAfterFinished": 60}
    done = started(phase_index=1, completion_time=NOW).with_(phase="Succeeded")

    early = plan(spec, done, now=NOW + timedelta(seconds=20))
    assert (early.actions, early.requeue_s) == ((), 40)
    due = plan(spec, done, now=NOW + timedelta(seconds=60))
    assert due.actions == (actions.DeleteResource(),)
    assert plan(SPEC, done, now=NOW + timedelta(days=9)).actions == ()


def test_a_deleted_run_is_let_go_when_its_work_has_stopped():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    run_id = resource.run_id(UID, 0, 0)

    running = plan(SPEC, started(), Observed(kfp=KfpRun(state="RUNNING"), pods=2), **deleted)
    assert running.actions == (actions.TerminateRun(run_id=run_id),)
    pods = plan(SPEC, started(), Observed(kfp=KfpRun(state="FAILED"), pods=1), **deleted)
    assert pods.actions == ()
    over = plan(SPEC, started(), Observed(kfp=KfpRun(state="FAILED"), pods=0), **deleted)
    assert over.actions == (
        actions.CloseTracker(run_id="m1", status="KILLED"),
        actions.Release(),
    )


def test_a_deletion_stops_every_run_of_the_experiment():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    own, later = resource.run_id(UID, 0, 0), resource.run_id(UID, 1, 0)

    def at(seconds, kfp, **others):
        states = {
            resource.run_id(UID, 1, n): KfpRun(state=s) for n, s in enumerate(others.values())
        }
        observed = Observed(kfp=kfp, others=states, pods=1)
        return plan(SPEC, started(), observed, now=NOW + timedelta(seconds=seconds), **deleted)

    done = KfpRun(state="SUCCEEDED")
    both = at(1, KfpRun(state="RUNNING"), later="RUNNING", ended="FAILED")
    assert set(both.actions) == {
        actions.TerminateRun(run_id=own),
        actions.TerminateRun(run_id=later),
    }
    assert both.status.message == "deleting: 2 KFP runs are being stopped"
    assert at(1, done, later="RUNNING").actions == (actions.TerminateRun(run_id=later),)
    assert at(1, done, later="CANCELING").actions == ()
    silent = Unknown(why="KFP: refused")
    assert at(1, silent, later="RUNTIME_STATE_UNSPECIFIED").actions == ()
    assert at(15, silent, later="RUNTIME_STATE_UNSPECIFIED").actions == (
        actions.RemoveWorkflow(run_id=own),
        actions.RemoveWorkflow(run_id=later),
    )
    assert at(1, None, later="RUNNING").actions == (
        actions.RemoveWorkflow(run_id=own),
        actions.TerminateRun(run_id=later),
    )
    assert at(45, done, later="CANCELING").actions == (
        actions.RemoveWorkflow(run_id=own),
        actions.RemoveWorkflow(run_id=later),
    )
    assert actions.Release() in at(90, done, later="CANCELING").actions


def test_a_deleted_run_takes_its_store_along_where_the_manifest_says_so():
    spec = SPEC | {"storage": {"onDelete": "delete"}}
    got = plan(spec, deletionTimestamp="2026-11-21T12:00:00Z")

    assert got.actions == (actions.ForgetRuns(), actions.EraseStore(), actions.Release())


def test_a_deletion_does_not_wait_for_ever():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    gone = Unknown(why="KFP: refused")
    run_id = resource.run_id(UID, 0, 0)

    def at(seconds, pods):
        observed = Observed(kfp=gone, pods=pods)
        return plan(SPEC, started(), observed, now=NOW + timedelta(seconds=seconds), **deleted)

    assert at(5, 2).actions == ()
    assert at(15, 2).actions == (actions.RemoveWorkflow(run_id=run_id),)
    assert [type(one) for one in at(16, 0).actions] == [
        actions.RemoveWorkflow,
        actions.CloseTracker,
        actions.Release,
    ]
    assert [type(one) for one in at(90, 2).actions] == [actions.CloseTracker, actions.Release]


def test_a_deletion_leaves_the_workflow_to_a_kfp_that_answers_for_a_while():
    deleted = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
    run_id = resource.run_id(UID, 0, 0)

    def at(seconds, kfp):
        observed = Observed(kfp=kfp, pods=1)
        return plan(SPEC, started(), observed, now=NOW + timedelta(seconds=seconds), **deleted)

    assert at(30, KfpRun(state="FAILED")).actions == ()
    assert at(45, KfpRun(state="FAILED")).actions == (actions.RemoveWorkflow(run_id=run_id),)
    assert at(1, None).actions == (actions.RemoveWorkflow(run_id=run_id),)


def test_a_condition_keeps_its_time_while_its_status_stays():
    first = plan()
    later = NOW + timedelta(minutes=5)
    second = plan(status=first.status, observed=Observed(kfp=KfpRun(state="RUNNING")), now=later)

    progressing = second.status.condition(Kind.PROGRESSING)
    assert progressing.reason == "Running"
    assert progressing.last_transition_time == NOW


def test_a_damaged_status_counts_as_lost():
    assert statuses.read({"phaseIndex": "one"}) == Status()


def test_a_status_patch_says_only_what_changed():
    before = {"phase": "Pending", "kfpRun": "a", "attempt": 0}
    assert statuses.patch(before, {"phase": "Running", "attempt": 0}) == {
        "phase": "Running",
        "kfpRun": None,
    }
    assert statuses.patch(before, dict(before)) == {}
