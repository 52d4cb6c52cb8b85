"""Fingerprints of environment servers: what the operator compares to know whether servers are up to
date.

A fingerprint is `QUEUE.RUN.WHOLE`. `WHOLE` is a hash of the manifest. `RUN` is a hash of what the
run itself determines of it, through its spec and the nodes that Kueue assigned. If only `WHOLE`
differs, the rest has changed: the platform configuration, such as an image, or the operator, by an
upgrade. `QUEUE` is a hash of what Kueue does not let change in a Deployment while a pod of it is
ready; its labels may also be Kueue's own, as of a default queue.

The number of servers and Kueue's labels are in `WHOLE` and not in `RUN`. Servers that an earlier
operator created have no `RUN`: nobody knows why they differ. Those of Sandboxes have no `QUEUE`.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import metadata as owned
from agentrl_pipelines.labels import PRIORITY_LABEL, QUEUE_LABEL
from agentrl_pipelines.platform import kueue_pods
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import PodSetInfo

_NOT_OF_SERVERS: Mapping[str, bool | set[str]] = {
    "weight": True,
    "max_turns": True,
    "timeout_s": True,
    "token_env": True,
    "replicas": True,
    "workers": True,
    "scaling": {"max_replicas", "target_share", "down_after_s"},
}
"""Fields of an environment that say nothing about the pod of a server."""


def joined(run_part: str, whole: str, queue_part: str | None = None) -> str:
    """The fingerprint with these parts."""
    return ".".join((*(() if queue_part is None else (queue_part,)), run_part, whole))


def queue_part(fingerprint: str) -> str:
    """`QUEUE` of a fingerprint; empty if it has none."""
    return fingerprint.rpartition(".")[0].rpartition(".")[0]


def run_part(fingerprint: str) -> str:
    """`RUN` of a fingerprint; empty if it has none."""
    return fingerprint.rpartition(".")[0].rpartition(".")[2]


def whole(fingerprint: str) -> str:
    """`WHOLE` of a fingerprint."""
    return fingerprint.rpartition(".")[2]


def queue_part_of(resource: Resource, run: AgentRLRun, platform: Platform) -> str:
    """`QUEUE` of up-to-date servers: Kueue's webhook refuses another queue, and to add or remove a
    priority."""
    labels = kueue_pods.pod_labels(run.spec.compute, platform, resource.priority_class)
    return owned.fingerprint(
        {"queue": labels.get(QUEUE_LABEL), "priority": PRIORITY_LABEL in labels}
    )


def run_part_of(environment: Environment, nodes: PodSetInfo) -> str:
    """`RUN` of an up-to-date server. Defaults are left out: another version may have others."""
    content = environment.model_dump(mode="json", exclude=_NOT_OF_SERVERS, exclude_defaults=True)
    return owned.fingerprint(
        {
            "environment": content,
            "nodeSelector": dict(nodes.node_selector),
            "tolerations": [dict(one) for one in nodes.tolerations],
            "labels": dict(nodes.pod_labels),
            "annotations": dict(nodes.pod_annotations),
        }
    )


def is_current(found: str, wanted: str) -> bool:
    """Whether servers with the fingerprint `found` are as those with `wanted` would be."""
    return whole(found) == whole(wanted)


def is_same_run(found: str, wanted: str) -> bool:
    """Whether the run determines the same about both, as far as is known."""
    return run_part(found) in ("", run_part(wanted))


def is_same_queue(found: str, wanted: str) -> bool:
    """Whether Kueue lets servers with the fingerprint `found` become those with `wanted`, as far as
    is known."""
    return queue_part(found) in ("", queue_part(wanted))
