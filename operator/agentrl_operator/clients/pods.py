"""What the pods of a run say about themselves: which still work, and what stops one from working
or from ending.

A stage that is killed, or whose image cannot be pulled, writes nothing to the run's store; only its
pod knows why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from agentrl_operator.api.conditions import Reason
from agentrl_operator.manifests.labels import ENVIRONMENT
from agentrl_pipelines.labels import KFP_RUN_LABEL, RAY_LABEL, STAGE_LABEL
from agentrl_pipelines.stages.termination import LIMIT

ENDED = ("Succeeded", "Failed")
"""Phases of a pod whose containers have all ended."""
TRANSIENT = ("ContainerCreating", "PodInitializing")
"""Reasons for waiting that end by themselves."""
CRASHED = "CrashLoopBackOff"
"""Reason of a container that waits to be started again; its last state says why it ended."""
KILLED = ("OOMKilled", "ContainerCannotRun", "DeadlineExceeded", "Evicted")
"""Reasons for an end that the container itself could not report."""
CANNOT_START = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RunContainerError",
)
"""Reasons of containers that will not start unless something else changes. Failures to pull an
image are not among them: a registry may be down for a while."""
IMAGE_FAILED = (
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
"""Reasons of containers whose image cannot be pulled, now or ever."""
UNSCHEDULABLE = "Unschedulable"
"""Reason of pods that fit on no node."""
GATED = "SchedulingGated"
"""Reason of pods that nobody may schedule yet: Kueue has not admitted them."""
NODE_LOST = "NodeLost"
"""Our own reason for a pod that does not end."""
OVERDUE_S = 60.0
"""A pod that is still there this long after its grace period is on a node that does not answer."""
LONGEST_PROBLEM = 300
"""Maximum length of a problem that is shown, in characters."""


class _TerminationMessage(BaseModel):
    """What a stage or a server writes before it fails; see `agentrl_pipelines.stages.termination`.
    Any process of the container may write it."""

    model_config = ConfigDict(extra="ignore", strict=True)

    reason: Annotated[str, StringConstraints(pattern="^[A-Za-z][A-Za-z0-9]*$", max_length=64)]
    message: Annotated[str, StringConstraints(max_length=LIMIT)]


class _Problem(NamedTuple):
    """A problem of a pod."""

    text: str
    reason: str
    """What Kubernetes says in one word; empty if only the container itself says something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a run."""

    part: str
    """Its stage, environment or group of the Ray cluster; else the name of the pod."""
    run_id: str
    """The KFP run that it belongs to; empty if it belongs to none."""
    environment: str = ""
    """The environment that it serves; empty if it serves none."""
    ended: bool
    """Whether all its containers have ended."""
    ready: bool = False
    """Whether it is ready."""
    terminating: bool = False
    """Whether it is being deleted."""
    stuck: str = ""
    """Why it does not end although it is being deleted: `NodeLost: ...`."""
    problem: str = ""
    """What stops it from working or ending, or ended it: `OOMKilled`, `ImagePullBackOff: ...`."""
    reason: str = ""
    """What Kubernetes says about that in one word: `ImagePullBackOff`. Empty if there is no problem
    or only the container itself names one, so that no image can feign a reason."""


def read(body: Mapping[str, Any], now: datetime) -> Pod:
    """The pod in an object of the Kubernetes API that was read at `now`."""
    metadata, status = body["metadata"], body.get("status") or {}
    labels = metadata.get("labels") or {}
    ended = status.get("phase") in ENDED
    stuck = "" if ended else _why_stuck(body, now)
    problem = next(_problems(status), _Problem("", ""))
    return Pod(
        part=labels.get(STAGE_LABEL)
        or labels.get(ENVIRONMENT)
        or labels.get(RAY_LABEL)
        or metadata["name"],
        run_id=labels.get(KFP_RUN_LABEL, ""),
        environment=labels.get(ENVIRONMENT, ""),
        ended=ended,
        ready=any(
            (one.get("type"), one.get("status")) == ("Ready", "True")
            for one in status.get("conditions") or ()
        ),
        terminating="deletionTimestamp" in metadata,
        stuck=stuck,
        problem=stuck or problem.text[:LONGEST_PROBLEM],
        reason=NODE_LOST if stuck else problem.reason,
    )


def working(pods: Sequence[Pod]) -> int:
    """Number of pods that have not ended."""
    return sum(not pod.ended for pod in pods)


def problem_reasons(pods: Sequence[Pod]) -> set[str]:
    """The reasons of the pods' problems, such as `ImagePullBackOff`."""
    return {pod.reason for pod in pods if pod.reason}


def cannot_start(pods: Sequence[Pod]) -> bool:
    """Whether one of the pods will not start unless something else changes."""
    return not problem_reasons(pods).isdisjoint(CANNOT_START)


def waiting_reason(pods: Sequence[Pod]) -> Reason | None:
    """What pods wait for, the most severe first. None: nothing but their own start."""
    reasons = problem_reasons(pods)
    if not reasons.isdisjoint((*CANNOT_START, *IMAGE_FAILED)):
        return Reason.POD_CANNOT_START
    if UNSCHEDULABLE in reasons:
        return Reason.UNSCHEDULABLE
    return Reason.QUEUED if GATED in reasons else None


def problem_summary(pods: Sequence[Pod]) -> str:
    """The distinct problems of the pods, in one line: `train: OOMKilled`."""
    return "; ".join(dict.fromkeys(f"{pod.part}: {pod.problem}" for pod in pods if pod.problem))


def stuck_summary(pods: Sequence[Pod]) -> str:
    """The pods that do not end although they are being deleted, in one line."""
    return "; ".join(dict.fromkeys(f"{pod.part}: {pod.stuck}" for pod in pods if pod.stuck))


def creation_problem(status: Mapping[str, Any]) -> str:
    """Why pods of the Deployment or RayCluster with this status cannot be created, such as a quota
    that is used up: `FailedCreate: ...`. Empty: they can."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("ReplicaFailure", "True"):
            reason, message = condition.get("reason") or "FailedCreate", condition.get("message")
            # KubeRay repeats the reason in the message.
            message = (message or "").removeprefix(reason)
            return _sentence(reason, message)[:LONGEST_PROBLEM]
    return ""


def _why_stuck(body: Mapping[str, Any], now: datetime) -> str:
    """Why a pod that has not ended does not, although it should have: only its kubelet removes it,
    or whoever knows that its node is down."""
    metadata = body["metadata"]
    node = (body.get("spec") or {}).get("nodeName")
    if "deletionTimestamp" not in metadata or not node:
        return ""
    # The deletion timestamp is the end of the grace period.
    overdue_s = (now - datetime.fromisoformat(metadata["deletionTimestamp"])).total_seconds()
    if overdue_s < OVERDUE_S:
        return ""
    return (
        f"{NODE_LOST}: pod {metadata['name']} on node {node} does not end; if the node is down, "
        "delete the Node or taint it with node.kubernetes.io/out-of-service"
    )


def _problems(status: Mapping[str, Any]) -> Iterator[_Problem]:
    """The problems of a pod with this status, the most severe first."""
    containers = [
        container
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or ()
    ]
    for container in containers:
        terminated = (container.get("state") or {}).get("terminated") or {}
        if terminated.get("exitCode"):
            yield from _termination(terminated)
    if status.get("reason") in KILLED:
        yield _of_kubernetes(status["reason"], status.get("message"))
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == CRASHED:
            yield from _termination((container.get("lastState") or {}).get("terminated") or {})
        if waiting.get("reason") and waiting["reason"] not in TRANSIENT:
            yield _of_kubernetes(waiting["reason"], waiting.get("message"))
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            reason = condition.get("reason") or UNSCHEDULABLE
            yield _of_kubernetes(reason, condition.get("message"))


def _termination(terminated: Mapping[str, Any]) -> Iterator[_Problem]:
    """Why a container failed: what killed it, or the error that its stage wrote last."""
    if terminated.get("reason") in KILLED:
        yield _of_kubernetes(terminated["reason"], terminated.get("message"))
        return
    try:
        error = _TerminationMessage.model_validate_json(terminated.get("message") or "")
    except ValidationError:
        return  # the containers of KFP and Argo report their errors in the KFP run
    yield _Problem(_sentence(error.reason, error.message), "")


def _of_kubernetes(reason: str, message: str | None) -> _Problem:
    return _Problem(_sentence(reason, message), reason)


def _sentence(reason: str, message: str | None) -> str:
    return f"{reason}: {' '.join(message.split())}" if message else reason
