"""Problems of pods, from the status that a kubelet writes."""

import pytest

from agentrl_operator.clients.pods import Pod, problem_summary, read, working

LABELS = {"agentrl.dev/run": "demo", "agentrl.dev/stage": "train"}


def pod(phase="Running", labels=LABELS, **status):
    return {
        "metadata": {"name": "demo-1", "labels": labels},
        "status": {"phase": phase} | status,
    }


def container(**state):
    return [{"name": "wait", "state": {"running": {}}}, {"name": "main", "state": state}]


def test_a_working_pod_has_no_problem():
    seen = read(pod(containerStatuses=container(running={})))
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
    ],
)
def test_what_stops_a_pod_from_working_is_reported(status, told):
    assert read(pod(**status)).problem == told


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
    assert read(pod(**status)).problem == ""


def test_working_pods_are_counted_and_each_problem_is_named_once():
    labels = {"agentrl.dev/environment": "rooms"}
    away = container(waiting={"reason": "ErrImagePull"})
    pods = [
        read(pod("Pending", labels, containerStatuses=away)),
        read(pod("Pending", labels, containerStatuses=away)),
        read(pod("Failed", {}, reason="Evicted")),
        read(pod("Succeeded")),
    ]
    assert working(pods) == 2
    assert problem_summary(pods) == "rooms: ErrImagePull; demo-1: Evicted"
