"""The Deployment of an environment's servers, with the fingerprint by which the operator compares
it. `environment_server` has what is in it, and `sandbox` its other form."""

from __future__ import annotations

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import environment_server, server_fingerprint
from agentrl_operator.manifests.labels import FINGERPRINT
from agentrl_operator.manifests.metadata import Manifest
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo


def manifest(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> Manifest:
    """The Deployment, with its fingerprint as an annotation. `nodes` are those that Kueue assigned
    to the servers."""
    made = environment_server.deployment(resource, run, environment, platform, nodes)
    made["metadata"]["annotations"][FINGERPRINT] = fingerprint(
        resource, run, environment, platform, nodes
    )
    return made


def fingerprint(
    resource: Resource,
    run: AgentRLRun,
    environment: Environment,
    platform: Platform,
    nodes: PodSetInfo = UNCONSTRAINED,
) -> str:
    """The value of the annotation of an up-to-date Deployment."""
    return server_fingerprint.joined(
        server_fingerprint.run_part_of(resource, run, environment, platform, nodes),
        environment_server.fingerprint(resource, run, environment, platform, nodes),
    )
