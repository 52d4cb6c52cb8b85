"""What is done about a run that goes on: it starts, works, and passes from phase to phase."""

from datetime import timedelta

import pytest
from demo_run import NOW, PLATFORM, SERVED, UID, plan, run, started

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import HeldoutSummary, RunState
from agentrl_operator.api import resource
from agentrl_operator.api import status as statuses
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.manifests import environment_server
from agentrl_operator.planning import actions
from agentrl_operator.planning.observation import Observation, RayCluster, Servers, Unknown
from agentrl_operator.planning.plan import Situation
from agentrl_operator.planning.progress import success_text, with_clock_running


def test_a_new_run_gets_a_finalizer_an_mlflow_run_and_its_first_kfp_run():
    got = plan(finalizers=[])

    run_id = resource.run_id(UID, 0, 0)
    assert got.actions == (
        actions.AddFinalizer(),
        actions.CreateMlflowRun(),
        actions.StartKfpRun(run_id=run_id, phase=0, attempt=0, first=True),
    )
    assert statuses.as_json(got.status) == {
        "state": "Pending",
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


def served(ready):
    """The observation of a run whose servers are as its manifest says."""
    made = run(SERVED)
    environment = made.run.spec.environments[0]
    manifest = environment_server.fingerprint(made, made.run, environment, PLATFORM)
    servers = Servers(manifest=manifest, ready=ready, wanted=1)
    return Observation(servers={"demo-6a1b2c3d-babyai": servers})


def test_missing_environments_and_their_token_are_created_before_the_kfp_run():
    kinds = [type(action) for action in plan(SERVED).actions]
    assert kinds == [actions.CreateTokenSecret, actions.ApplyEnvironment]

    waiting = plan(SERVED, started(), served(0))
    assert waiting.actions == ()
    assert waiting.status.has_condition(Kind.PROGRESSING, "True", Reason.ENVIRONMENTS_STARTING)
    assert waiting.status.message == "waiting for a server of babyai"

    kinds = [type(action) for action in plan(SERVED, started(), served(1)).actions]
    assert kinds == [actions.CreateTokenSecret, actions.ApplyEnvironment, actions.StartKfpRun]


def test_ready_servers_are_kept_and_outdated_ones_updated():
    made = run(SERVED)
    fingerprint = environment_server.fingerprint(
        made, made.run, made.run.spec.environments[0], PLATFORM
    )
    name = "demo-6a1b2c3d-babyai"

    def seen(manifest, ready):
        servers = {name: Servers(manifest=manifest, ready=ready, wanted=1)}
        return plan(SERVED, started(), Observation(kfp=KfpRun(state="RUNNING"), servers=servers))

    assert seen(fingerprint, 1).actions == ()
    assert seen(fingerprint, 1).status.has_condition(Kind.ENVIRONMENTS_READY, "True", Reason.READY)
    waiting = seen(fingerprint, 0).status.condition(Kind.ENVIRONMENTS_READY)
    assert (waiting.status, waiting.message) == ("False", "babyai: 0 of 1 servers are ready")
    assert seen("older-spec.older", 1).actions == (
        actions.CreateTokenSecret(servers=(name,)),
        actions.DeleteAutoscaler(deployment=name),  # it may have been scaled before
        actions.ApplyEnvironment(environment="babyai", exists=True),
    )


def test_each_attempt_applies_the_token_secret_and_services_again():
    made = run(SERVED)
    fingerprint = environment_server.fingerprint(
        made, made.run, made.run.spec.environments[0], PLATFORM
    )
    name = "demo-6a1b2c3d-babyai"
    servers = {name: Servers(manifest=fingerprint, ready=1, wanted=1)}

    assert plan(SERVED, started(), Observation(servers=servers)).actions[:2] == (
        actions.CreateTokenSecret(servers=(name,)),
        actions.ApplyEnvironment(environment="babyai", exists=True, keep_servers=True),
    )


def test_the_status_of_a_running_run_shows_its_stored_state():
    state = RunState(
        status="running",
        message="iteration 3 of 6",
        phase=0,
        max_turns=3,
        iteration=3,
        heldout=HeldoutSummary(name="after", success=0.812, low=0.771, high=0.849, n=400),
        best=2,
        tokens=1234.0,
        environment_seconds=5.6,
        device_seconds=7.8,
    )
    got = plan(status=started(), observed=Observation(kfp=KfpRun(state="RUNNING"), run_state=state))

    assert got.actions == ()
    assert got.requeue_s == 5
    assert got.status.state == "Running"
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


@pytest.mark.parametrize(
    ("stored_phase", "stored_turns", "horizon"),
    [
        (1, 5, 5),  # as its stages played it, before an edit
        (1, 0, 6),  # not stored yet
        (0, 3, 6),  # of the phase before
    ],
)
def test_the_horizon_is_that_of_the_current_phase(stored_phase, stored_turns, horizon):
    state = RunState(status="running", phase=stored_phase, max_turns=stored_turns, iteration=2)
    observed = Observation(kfp=KfpRun(state="RUNNING"), run_state=state)
    assert plan(status=started(phase_index=1), observed=observed).status.horizon == horizon


def test_a_run_whose_pods_wait_in_kueues_queue_has_active_time_only_with_a_ray_cluster():
    cluster = RayCluster(manifest="", deleting=False, wanted={}, ready={})
    found = []
    for seen in (
        Observation(),
        Observation(queued=True),
        Observation(queued=True, ray_cluster=cluster),
    ):
        situation = Situation(
            resource=run(), observation=seen, platform=PLATFORM, now=NOW + timedelta(seconds=30)
        )
        status = with_clock_running(situation, started())
        found.append((status.active_time, status.active_seconds))
    assert found == [(NOW, 0), (None, 30), (NOW, 0)]


def test_success_is_empty_until_a_trained_policy_is_evaluated():
    """The evaluation before training is not the success of the run."""
    before = HeldoutSummary(name="before", success=0.2, low=0.1, high=0.3, n=400)
    state = RunState(status="running", phase=0, iteration=3, heldout=before)
    got = plan(status=started(), observed=Observation(kfp=KfpRun(state="RUNNING"), run_state=state))
    assert got.status.success is None

    after = before.model_copy(update={"name": "3"})
    state = state.model_copy(update={"heldout": after})
    got = plan(status=started(), observed=Observation(kfp=KfpRun(state="RUNNING"), run_state=state))
    assert got.status.success == "20% [10, 30]"

    lacking = after.model_copy(update={"missing": ("rooms",)})
    state = state.model_copy(update={"heldout": lacking})
    got = plan(status=started(), observed=Observation(kfp=KfpRun(state="RUNNING"), run_state=state))
    assert got.status.success == "20% [10, 30] without rooms"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("a" * 40,), f"without {'a' * 40}"),
        (("deepsearch-hotpotqa", "babyai"), "without deepsearch-hotpotqa, babyai"),
        (("a" * 20, "b" * 20, "c" * 20), f"without {'a' * 20} and 2 more"),
        (("a" * 40, "b" * 40), "without 2 environments"),
    ],
)
def test_environments_that_were_down_are_named_as_far_as_the_field_has_room(names, told):
    heldout = HeldoutSummary(name="3", success=1, low=1, high=1, n=9, missing=names)
    text = success_text(heldout)
    assert text == f"100% [100, 100] {told}"
    assert len(text) <= 64


def test_problems_of_pods_are_shown_in_the_message():
    kfp, problem = KfpRun(state="RUNNING"), "train: ImagePullBackOff: no image"
    got = plan(status=started(), observed=Observation(kfp=kfp, pod_problem=problem))
    assert got.status.message == f"phase 1 of 2, 3 turns: {problem}"

    ended = Observation(kfp=KfpRun(state="FAILED"), pods=0, pod_problem="train: OOMKilled")
    got = plan(status=started(), observed=ended)
    assert got.status.message == (
        "the KFP run ended FAILED: train: OOMKilled; trying again in 10 s"
    )


def test_a_finished_phase_is_followed_by_the_next():
    decision = Decision(action="advance", phase=1, max_turns=6, reason="on")
    observed = Observation(kfp=KfpRun(state="SUCCEEDED"), decision=decision)
    got = plan(status=started(), observed=observed)

    assert got.requeue_s == 0
    assert (got.status.phase_index, got.status.attempt) == (1, 0)
    after = plan(status=got.status)
    assert after.actions == (
        actions.StartKfpRun(run_id=resource.run_id(UID, 1, 0), phase=1, attempt=0),
    )
    assert after.status.horizon == 6


def test_a_finished_schedule_succeeds_and_finishes_the_mlflow_run():
    observed = Observation(
        kfp=KfpRun(state="SUCCEEDED"),
        decision=Decision(
            action="finish",
            phase=1,
            max_turns=6,
            reason="the schedule is done after 6 iterations",
        ),
        servers={"demo-babyai": Servers(manifest="x", ready=1, wanted=1)},
    )
    got = plan(status=started(phase_index=1), observed=observed)

    assert got.actions == (
        actions.DeleteDeployment(deployment="demo-babyai"),
        actions.FinishMlflowRun(run_id="m1", status="FINISHED"),
    )
    assert got.status.state == "Succeeded"
    assert got.status.completion_time == NOW
    assert got.status.has_condition(Kind.SUCCEEDED, "True", Reason.SCHEDULE_DONE)
    assert got.status.has_condition(Kind.PROGRESSING, "False", Reason.SCHEDULE_DONE)


def test_nothing_is_decided_while_kfp_or_the_store_does_not_answer():
    silent = plan(status=started(), observed=Observation(kfp=Unknown(message="KFP: refused")))
    assert silent.actions == ()
    assert silent.status.has_condition(Kind.PROGRESSING, "Unknown", Reason.KFP_UNAVAILABLE)
    assert silent.status.attempt == 0

    observed = Observation(
        kfp=KfpRun(state="SUCCEEDED"), decision=Unknown(message="store: refused")
    )
    blind = plan(status=started(), observed=observed)
    assert blind.status.has_condition(Kind.PROGRESSING, "Unknown", Reason.STORE_UNAVAILABLE)
    assert blind.status.phase_index == 0
