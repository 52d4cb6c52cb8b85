"""Environment servers as `Sandbox` objects of agent-sandbox (`agents.x-k8s.io`): one object for
each server, with the pod that a Deployment would have.

A Sandbox has one pod at most. Its controller makes a pod again that is lost, but does not replace
one whose template has changed, so a Sandbox that differs is deleted and created again. The run owns
the Sandboxes, and they own their pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import metadata as owned
from agentrl_operator.manifests import server_fingerprint
from agentrl_operator.manifests.environment_server import pod_template, server_labels
from agentrl_operator.manifests.labels import ENVIRONMENT, FINGERPRINT
from agentrl_operator.manifests.metadata import Manifest, metadata
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo

GROUP, VERSION, PLURAL = "agents.x-k8s.io", "v1beta1", "sandboxes"


def is_wanted(run: AgentRLRun) -> bool:
    """Whether any environment of the run is served by Sandboxes."""
    return any(map(is_sandboxed, run.spec.environments))


def is_sandboxed(environment: Environment) -> bool:
    """Whether the servers of an environment are Sandboxes."""
    return environment.backend == "sandbox" and resolve.is_managed(environment)


def manifests(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> list[Manifest]:
    """The Sandboxes of an environment, each with the fingerprint of its spec as an annotation.
    `nodes` are those that Kueue assigned to them."""
    spec = _spec(resource, run, environment, platform, nodes)
    labels = server_labels(resource, run, environment, platform)
    run_part = server_fingerprint.run_part_of(environment, nodes)
    annotations = {FINGERPRINT: server_fingerprint.joined(run_part, owned.fingerprint(spec))}
    return [
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Sandbox",
            "metadata": metadata(resource, f"{environment.name}-{number}", labels)
            | {"annotations": annotations},
            "spec": spec,
        }
        for number in range(environment.replicas)
    ]


def fingerprint(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> str:
    """What `found_fingerprint` returns for Sandboxes that are up to date."""
    return found_fingerprint(manifests(resource, run, environment, platform, nodes))


def found_fingerprint(sandboxes: Sequence[Mapping[str, Any]]) -> str:
    """The fingerprint of the Sandboxes of an environment together: of their names, and of what each
    was created from. The part `RUN` is left out if a Sandbox lacks it."""
    found = {one["metadata"]["name"]: created_from(one) for one in sandboxes}
    run_parts = {name: server_fingerprint.run_part(one) for name, one in found.items()}
    whole = {name: server_fingerprint.whole(one) for name, one in found.items()}
    known = owned.fingerprint(run_parts) if all(run_parts.values()) else ""
    return server_fingerprint.joined(known, owned.fingerprint(whole))


def created_from(sandbox: Mapping[str, Any]) -> str:
    """The fingerprint of the spec that a Sandbox was created with."""
    found: str = sandbox["metadata"].get("annotations", {}).get(FINGERPRINT, "")
    return found


def of_environment(
    sandboxes: Sequence[Mapping[str, Any]], environment: Environment
) -> list[Mapping[str, Any]]:
    """The Sandboxes of a run that serve an environment and are not being deleted."""
    return [
        one
        for one in sandboxes
        if one["metadata"]["labels"].get(ENVIRONMENT) == environment.name
        and "deletionTimestamp" not in one["metadata"]
    ]


def is_ready(sandbox: Mapping[str, Any]) -> bool:
    """Whether the pod of a Sandbox is ready."""
    conditions = sandbox.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _spec(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo,
) -> Manifest:
    return {
        "operatingMode": "Running",
        "service": False,  # the environment has one Service for all its servers
        "podTemplate": pod_template(resource, run, environment, platform, nodes),
    }
