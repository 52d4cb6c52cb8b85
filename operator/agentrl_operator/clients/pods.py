"""What the pods of a run say about themselves: which still work, and what stops one from working
or from ending.

A stage that is killed, or whose image cannot be pulled, writes nothing to the run's store; only its
pod knows why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
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
"""Reason of a container that waits to be started again; its last state says why it ended. As the
reason of a pod: of one whose container crashes again and again (`_is_crash_looping`)."""
MIN_RESTARTS = 3
"""A container that was restarted less often may get ready the next time. The kubelet restarts it
at once, then after 10, 20, 40, ... s, at most 300 s."""
RECOVERY = timedelta(seconds=60)
"""A container that has run longer than the time before by this much is starting, not crashing."""
NOT_STARTED = ("ContainerCannotRun", "StartError")
"""Reasons of containers that ended without having run; their `startedAt` means nothing."""
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
    or only the container itself names one, so that no image can feign a reason.
    `CrashLoopBackOff`: a container crashes again and again, whether it waits or runs just now."""


def read(body: Mapping[str, Any], now: datetime) -> Pod:
    """The pod in an object of the Kubernetes API that was read at `now`."""
    metadata, status = body["metadata"], body.get("status") or {}
    labels = metadata.get("labels") or {}
    ended = status.get("phase") in ENDED
    stuck = "" if ended else _why_stuck(body, now)
    problem = next(_problems(status, now), _Problem("", ""))
    return Pod(
        part=labels.get(STAGE_LABEL)
        or labels.get(ENVIRONMENT)
        or labels.get(RAY_LABEL)
        or metadata["name"],
        run_id=labels.get(KFP_RUN_LABEL, ""),
        environment=labels.get(ENVIRONMENT, ""),
        ended=ended,
        ready=_ready_condition(status).get("status") == "True",
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
    return not problem_reasons(pods).isdisjoint((*CANNOT_START, CRASHED))


def may_lack_object(pods: Sequence[Pod]) -> bool:
    """Whether one of the pods cannot start for a reason that creating a Secret again may end."""
    return not problem_reasons(pods).isdisjoint(CANNOT_START)


def waiting_reason(pods: Sequence[Pod]) -> Reason | None:
    """What pods wait for, the most severe first. None: nothing but their own start."""
    reasons = problem_reasons(pods)
    if not reasons.isdisjoint((*CANNOT_START, *IMAGE_FAILED, CRASHED)):
        return Reason.POD_CANNOT_START
    if UNSCHEDULABLE in reasons:
        return Reason.UNSCHEDULABLE
    return Reason.QUEUED if GATED in reasons else None


def all_queued(pods: Sequence[Pod]) -> bool:
    """Whether there are pods and none of them may be scheduled before Kueue admits it."""
    return bool(pods) and all(pod.reason == GATED for pod in pods)


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


def _ready_condition(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The condition Ready of a pod with this status; empty if it has none."""
    found = (one for one in status.get("conditions") or () if one.get("type") == "Ready")
    return next(found, {})


def _problems(status: Mapping[str, Any], now: datetime) -> Iterator[_Problem]:
    """The problems of a pod with this status, the most severe first."""
    containers = [
        container
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or ()
    ]
    unready_since = _time(_ready_condition(status).get("lastTransitionTime"))
    for container in containers if status.get("phase") not in ENDED else ():
        if _is_crash_looping(container, unready_since, now):
            yield _crash_loop(container)
    for container in containers:
        terminated = (container.get("state") or {}).get("terminated") or {}
        if terminated.get("exitCode"):
            yield from _termination(terminated)
    if status.get("reason") in KILLED:
        yield _of_kubernetes(status["reason"], status.get("message"))
    for container in containers:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") == CRASHED:  # not yet a crash loop: it may recover
            yield from _termination(_last_end(container))
            yield _Problem(_sentence(CRASHED, waiting.get("message")), "")
        elif waiting.get("reason") and waiting["reason"] not in TRANSIENT:
            yield _of_kubernetes(waiting["reason"], waiting.get("message"))
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            reason = condition.get("reason") or UNSCHEDULABLE
            yield _of_kubernetes(reason, condition.get("message"))


def _is_crash_looping(
    container: Mapping[str, Any], unready_since: datetime | None, now: datetime
) -> bool:
    """Whether a container ends again and again before it is ready. `unready_since`: since when its
    pod is not ready.

    A container that was ready before it ended has worked, and its restarts are counted over the
    life of the pod: one that crashes once an hour is not in a loop. Between two crashes a container
    is waiting, running or terminated, so the waiting reason alone does not show a loop."""
    ended = _last_end(container)
    finished = _time(ended.get("finishedAt"))
    started = finished if ended.get("reason") in NOT_STARTED else _time(ended.get("startedAt"))
    restarts = container.get("restartCount", 0)
    if container.get("ready") or restarts < MIN_RESTARTS or started is None or finished is None:
        return False
    if unready_since is not None and started < unready_since:
        return False
    running = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    since = _time(running)
    return since is None or now - since < finished - started + RECOVERY


def _last_end(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container ended the last time; empty if it never did."""
    states = (container.get(name) or {} for name in ("state", "lastState"))
    found: Iterator[Mapping[str, Any]] = (
        one["terminated"] for one in states if one.get("terminated")
    )
    return next(found, {})


def _crash_loop(container: Mapping[str, Any]) -> _Problem:
    """The problem of a container that crashes again and again, with how it ended the last time."""
    ended = _last_end(container)
    exit_code = _Problem(f"exit code {ended.get('exitCode')}", "")
    return _Problem(_sentence(CRASHED, next(_termination(ended), exit_code).text), CRASHED)


def _time(text: str | None) -> datetime | None:
    """A time of the Kubernetes API. None: it is not set."""
    return datetime.fromisoformat(text) if text else None


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
