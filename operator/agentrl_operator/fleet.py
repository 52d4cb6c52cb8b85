"""The servers of a run's environments: which there should be, and whether they answer."""

from __future__ import annotations

from datetime import datetime

from agentrl_components.spec import AgentRLRun
from agentrl_operator import children
from agentrl_operator.actions import Action, ApplyEnvironment, ApplyToken
from agentrl_operator.conditions import Kind, Reason
from agentrl_operator.observed import Observed
from agentrl_operator.resource import Resource
from agentrl_operator.status import Status
from agentrl_pipelines import placement
from agentrl_pipelines.platform import Platform


def served(
    resource: Resource,
    run: AgentRLRun,
    status: Status,
    observed: Observed,
    platform: Platform,
    now: datetime,
) -> tuple[list[Action], Status]:
    """What brings the servers to what the manifest says, and the condition that tells of them."""
    actions: list[Action] = []
    behind: list[str] = []
    environments = [one for one in run.spec.environments if placement.served(one)]
    for environment in environments:
        name = placement.child_name(resource.name, resource.uid, environment.name)
        servers = observed.servers.get(name)
        if servers is None or servers.manifest != children.fingerprint(
            resource, run, environment, platform
        ):
            actions.append(ApplyEnvironment(environment=environment.name))
        ready, wanted = (servers.ready, servers.wanted) if servers else (0, environment.replicas)
        if ready < wanted:
            behind.append(f"{environment.name}: {ready} of {wanted} servers answer")
    if actions:
        actions.insert(0, ApplyToken())
    if not environments:
        message = "no environment needs a server of its own"
        status = status.told(Kind.ENVIRONMENTS_READY, "True", Reason.NONE_SERVED, message, now)
    elif behind:
        message = "; ".join(behind)
        status = status.told(Kind.ENVIRONMENTS_READY, "False", Reason.STARTING, message, now)
    else:
        message = "every server answers"
        status = status.told(Kind.ENVIRONMENTS_READY, "True", Reason.READY, message, now)
    return actions, status
