"""Objects beside the Deployment of an environment whose number of servers changes: a
PodDisruptionBudget and, where the cluster serves the metric, a HorizontalPodAutoscaler."""

from __future__ import annotations

from agentrl_components.spec import Environment, Scaling
from agentrl_operator.api.resource import Resource
from agentrl_operator.manifests import environment_server
from agentrl_operator.manifests.metadata import Manifest, metadata

METRIC = "agentrl_env_sessions_share"
"""Metric of a server: its open sessions as a share of their maximum number."""


def disruption_budget(resource: Resource, environment: Environment) -> Manifest:
    """Lets one server at a time be evicted, so that the sessions of the others go on. A server that
    is not ready may always be: without that, it would keep its node from being drained."""
    labels = environment_server.selector(resource, environment)
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(resource, environment.name, labels),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels},
        },
    }


def autoscaler(resource: Resource, environment: Environment, scaling: Scaling) -> Manifest:
    """Scales the Deployment so that the servers' average share of open sessions is the target."""
    name = resource.child(environment.name)
    labels = environment_server.selector(resource, environment)
    target = f"{round(1000 * scaling.target_share)}m"
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(resource, environment.name, labels),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": METRIC},
                        "target": {"type": "AverageValue", "averageValue": target},
                    },
                }
            ],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": scaling.down_after_s}},
        },
    }
