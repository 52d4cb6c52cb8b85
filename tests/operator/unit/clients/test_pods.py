"""Problems of pods, from the status that a kubelet writes."""

import json
from datetime import UTC, datetime

import pytest

from agentrl_operator.clients.pods import (
    Pod,
    cannot_start,
    may_lack_object,
    problem_reasons,
    problem_summary,
    read,
    stuck_summary,
    waiting_reason,
    working,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
LABELS = {"agentrl.dev/run": "demo", "agentrl.dev/stage": "train"}


def pod(phase="Running", labels=LABELS, **status):
    return {
        "metadata": {"name": "demo-1", "labels": labels},
        "status": {"phase": phase} | status,
    }


def read_now(body):
    return read(body, NOW)


def container(**state):
    return [{"name": "wait", "state": {"running": {}}}, {"name": "main", "state": state}]


def test_a_working_pod_has_no_problem():
    seen = read_now(pod(containerStatuses=container(running={})))
    assert seen == Pod(part="train", run_id="", ended=False)


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "phase": "Failed",
                "containerStatuses": container(terminated={"exitCode": 137, "reason": "OOMKilled"}),
            },
            "OOMKilled",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": container(
                    waiting={"reason": "ImagePullBackOff", "message": 'no image\n "a:1"'}
                ),
            },
            'ImagePullBackOff: no image "a:1"',
        ),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available",
                    }
                ],
            },
            "Unschedulable: 0/1 nodes are available",
        ),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, "Evicted: disk"),
        (
            {
                "phase": "Failed",
                "containerStatuses": container(
                    terminated={
                        "exitCode": 2,
                        "reason": "Error",
                        "message": '{"reason": "ModelError", "message": "train: no", "final": 1}',
                    }
                ),
            },
            "ModelError: train: no",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "environment",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                        "lastState": {
                            "terminated": {
                                "exitCode": 2,
                                "message": '{"reason": "OptionError", "message": "no such level"}',
                            }
                        },
                    }
                ]
            },
            "OptionError: no such level",
        ),
        (
            {"containerStatuses": container(waiting={"reason": "CrashLoopBackOff"})},
            "CrashLoopBackOff",
        ),
    ],
)
def test_what_stops_a_pod_from_working_is_reported(status, told):
    assert read_now(pod(**status)).problem == told


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": container(waiting={"reason": "PodInitializing"})},
        {"containerStatuses": container(terminated={"exitCode": 0, "reason": "Completed"})},
        {"containerStatuses": container(terminated={"exitCode": 1, "message": "of Argo's"})},
        {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    ],
)
def test_transient_states_and_errors_reported_elsewhere_are_no_problem(status):
    assert read_now(pod(**status)).problem == ""


def failed(message):
    """A pod whose container wrote this termination message."""
    terminated = {"exitCode": 1, "reason": "Error", "message": message}
    return read_now(pod("Failed", containerStatuses=container(terminated=terminated)))


@pytest.mark.parametrize(
    "message",
    [
        "[" * 4000,
        '{"reason": ' + "[" * 4000,
        json.dumps({"reason": "ModelError", "message": 5}),
        json.dumps({"reason": 5, "message": "no"}),
        json.dumps({"reason": "ModelError"}),
        json.dumps({"reason": "two words", "message": "no"}),
        json.dumps({"reason": "A" * 65, "message": "no"}),
        json.dumps({"reason": "ModelError", "message": "\ud800"}),
        json.dumps(["ModelError", "no"]),
        "9" * 4000,
        "null",
    ],
)
def test_a_termination_message_in_another_form_is_no_problem_and_no_error(message):
    """Regression: such a message was an error whenever the pods were listed, so that neither the
    deadline of the run nor its suspension had an effect."""
    assert failed(message).problem == ""


def test_a_container_cannot_feign_a_reason_of_kubernetes():
    feigned = failed('{"reason": "InvalidImageName", "message": "no"}')
    assert feigned.problem == "InvalidImageName: no"
    assert problem_reasons([feigned]) == set()
    assert not cannot_start([feigned])
    waiting = container(waiting={"reason": "InvalidImageName", "message": "no"})
    true = read_now(pod("Pending", containerStatuses=waiting))
    assert problem_reasons([true, feigned]) == {"InvalidImageName"}
    assert cannot_start([true])


def test_working_pods_are_counted_and_each_problem_is_named_once():
    labels = {"agentrl.dev/environment": "rooms"}
    away = container(waiting={"reason": "ErrImagePull"})
    pods = [
        read_now(pod("Pending", labels, containerStatuses=away)),
        read_now(pod("Pending", labels, containerStatuses=away)),
        read_now(pod("Failed", {}, reason="Evicted")),
        read_now(pod("Succeeded")),
    ]
    assert working(pods) == 2
    assert problem_summary(pods) == "rooms: ErrImagePull; demo-1: Evicted"


def deleted(at, phase="Running"):
    """A pod on the node `a` that was asked to end, and had until `at` to do so."""
    body = pod(phase)
    body["metadata"] |= {"deletionTimestamp": at, "deletionGracePeriodSeconds": 30}
    return body | {"spec": {"nodeName": "a"}}


def test_a_pod_that_stays_a_minute_after_its_grace_period_is_on_a_lost_node():
    stuck = read_now(deleted("2026-11-21T11:59:00Z"))
    told = (
        "train: NodeLost: pod demo-1 on node a does not end; if the node is down, delete the Node "
        "or taint it with node.kubernetes.io/out-of-service"
    )
    assert stuck.terminating
    assert problem_summary([stuck]) == stuck_summary([stuck]) == told
    assert working([stuck]) == 1


@pytest.mark.parametrize(
    "body",
    [
        deleted("2026-11-21T11:59:01Z"),
        deleted("2026-11-21T12:00:30Z"),
        deleted("2026-11-21T11:00:00Z", phase="Failed"),
    ],
)
def test_a_pod_that_ends_in_time_is_not_on_a_lost_node(body):
    seen = read_now(body)
    assert seen.terminating
    assert (problem_summary([seen]), stuck_summary([seen])) == ("", "")


def waiting(reason):
    return read_now(pod("Pending", containerStatuses=container(waiting={"reason": reason})))


def unscheduled(reason):
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    return read_now(pod("Pending", conditions=[condition]))


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([unscheduled("SchedulingGated")], "Queued"),
        ([unscheduled("SchedulingGated"), unscheduled("Unschedulable")], "Unschedulable"),
        ([unscheduled("Unschedulable"), waiting("ErrImagePull")], "PodCannotStart"),
        ([waiting("ImagePullBackOff")], "PodCannotStart"),
        ([waiting("RunContainerError")], "PodCannotStart"),
        ([waiting("ContainerCreating"), read_now(pod())], None),
    ],
)
def test_the_most_severe_reason_is_what_pods_wait_for(pods, reason):
    assert waiting_reason(pods) == reason


def test_an_image_that_cannot_be_pulled_now_may_be_pulled_later():
    assert not cannot_start([waiting("ImagePullBackOff"), unscheduled("SchedulingGated")])
    assert cannot_start([waiting("InvalidImageName")])


LAST_END = {
    "exitCode": 137,
    "reason": "OOMKilled",
    "startedAt": "2026-11-21T11:50:00Z",
    "finishedAt": "2026-11-21T11:50:30Z",
}
WAITS = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting"}}


def crashing(
    state=WAITS, *, last=LAST_END, restarts=3, unready_since="11:40:00", ready=False, **status
):
    """A pod whose container ended at 11:50:30, after 30 s, and has this state at 12:00:00."""
    one = {"name": "environment", "ready": ready, "restartCount": restarts, "state": state}
    one["lastState"] = {"terminated": last} if last else {}
    condition = {"type": "Ready", "status": "False"}
    condition["lastTransitionTime"] = f"2026-11-21T{unready_since}Z"
    labels = {"agentrl.dev/environment": "rooms"}
    return read_now(pod(labels=labels, containerStatuses=[one], conditions=[condition], **status))


@pytest.mark.parametrize(
    "state",
    [
        WAITS,
        {"running": {"startedAt": "2026-11-21T11:58:31Z"}},  # for 89 s, the last time for 30 s
        {"terminated": LAST_END},
    ],
)
def test_a_container_that_crashes_again_and_again_cannot_start_whatever_it_does_just_now(state):
    """Regression: only a missing Secret or the like counted, so that pods that crashed were
    waited for without a reason."""
    seen = crashing(state)
    assert (seen.problem, seen.reason) == ("CrashLoopBackOff: OOMKilled", "CrashLoopBackOff")
    assert cannot_start([seen])
    assert waiting_reason([seen]) == "PodCannotStart"
    assert not may_lack_object([seen])


@pytest.mark.parametrize(
    "seen",
    [
        crashing(restarts=2),
        crashing(unready_since="11:50:01"),  # it was ready when the last start was a second old
        crashing({"running": {"startedAt": "2026-11-21T11:58:30Z"}}),  # 60 s longer than before
        crashing({"running": {"startedAt": "2026-11-21T11:59:59Z"}}, ready=True),
        crashing(last=None),
        crashing(last={"exitCode": 137, "reason": "ContainerStatusUnknown"}),
    ],
)
def test_a_container_that_crashes_now_and_then_may_start(seen):
    assert not cannot_start([seen])
    assert waiting_reason([seen]) is None


def test_a_container_that_never_ran_crashes_whatever_its_start_time_says():
    last = LAST_END | {"reason": "StartError", "startedAt": "1970-01-01T00:00:00Z"}
    assert cannot_start([crashing(last=last)])


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ({"exitCode": 1, "reason": "Error"}, "CrashLoopBackOff: exit code 1"),
        (
            {"exitCode": 2, "message": '{"reason": "OptionError", "message": "no such level"}'},
            "CrashLoopBackOff: OptionError: no such level",
        ),
    ],
)
def test_the_problem_of_a_crash_loop_names_the_last_end(last, told):
    times = {name: LAST_END[name] for name in ("startedAt", "finishedAt")}
    assert problem_summary([crashing(last=last | times)]) == f"rooms: {told}"


def test_the_first_crashes_of_a_container_are_its_problem_too():
    seen = crashing(restarts=1)
    assert (seen.problem, seen.reason) == ("OOMKilled", "OOMKilled")
    unsaid = crashing(restarts=1, last=LAST_END | {"reason": "Error"})
    assert (unsaid.problem, unsaid.reason) == ("CrashLoopBackOff: back-off 5m0s restarting", "")


def test_a_pod_that_has_ended_crashes_no_more():
    seen = crashing({"terminated": LAST_END}, phase="Failed", reason="Evicted")
    assert (seen.problem, seen.reason) == ("OOMKilled", "OOMKilled")
