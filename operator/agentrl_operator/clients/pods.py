"""What the pods of a run say of themselves: who still works, and what keeps one from working.

A stage that is killed, or whose image cannot be had, writes nothing into the store; its pod is all
that knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl_operator.manifests.environment_server import ENVIRONMENT
from agentrl_pipelines.labels import KFP_RUN_LABEL, STAGE_LABEL

ENDED = ("Succeeded", "Failed")
PASSING = ("ContainerCreating", "PodInitializing")
"""Reasons to wait that go by themselves."""
KILLED = ("OOMKilled", "ContainerCannotRun", "DeadlineExceeded", "Evicted")
"""Ends of which the container itself could not tell."""
LONGEST = 300
"""Characters of a reason that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One of them."""

    part: str
    """The stage or the environment that it is; else its name."""
    run_id: str
    """The KFP run that it belongs to; empty: none."""
    ended: bool
    """Nothing of it works any more."""
    trouble: str = ""
    """What keeps it from working, or ended it: `OOMKilled`, `ImagePullBackOff: ...`."""


def read(body: Mapping[str, Any]) -> Pod:
    """A pod as the API server has it."""
    metadata, status = body["metadata"], body.get("status") or {}
    labels = metadata.get("labels") or {}
    return Pod(
        part=labels.get(STAGE_LABEL) or labels.get(ENVIRONMENT) or metadata["name"],
        run_id=labels.get(KFP_RUN_LABEL, ""),
        ended=status.get("phase") in ENDED,
        trouble=next(_troubles(status), "")[:LONGEST],
    )


def working(pods: Sequence[Pod]) -> int:
    """How many have not ended."""
    return sum(not pod.ended for pod in pods)


def troubles(pods: Sequence[Pod]) -> str:
    """What they say, each thing once: `train: OOMKilled`."""
    return "; ".join(dict.fromkeys(f"{pod.part}: {pod.trouble}" for pod in pods if pod.trouble))


def _troubles(status: Mapping[str, Any]) -> Iterator[str]:
    """The worst first."""
    containers = [
        container
        for kind in ("initContainerStatuses", "containerStatuses")
        for container in status.get(kind) or ()
    ]
    for container in containers:
        over = (container.get("state") or {}).get("terminated") or {}
        if over.get("exitCode"):
            yield from _ended(over)
    if status.get("reason") in KILLED:
        yield _sentence(status["reason"], status.get("message"))
    for container in containers:
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("reason") and waits["reason"] not in PASSING:
            yield _sentence(waits["reason"], waits.get("message"))
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            yield _sentence(condition.get("reason") or "Unschedulable", condition.get("message"))


def _ended(over: Mapping[str, Any]) -> Iterator[str]:
    """What a container that failed was killed by, or its stage said last."""
    if over.get("reason") in KILLED:
        yield _sentence(over["reason"], over.get("message"))
        return
    try:
        told = json.loads(over.get("message") or "")
        yield _sentence(told["reason"], told["message"])
    except (ValueError, KeyError, TypeError):
        return  # what KFP's and Argo's containers say is in the KFP run


def _sentence(reason: str, message: str | None) -> str:
    return f"{reason}: {' '.join(message.split())}" if message else reason
