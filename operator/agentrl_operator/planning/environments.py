"""The servers of a run's environments: which there should be, and whether they answer."""

from __future__ import annotations

from collections.abc import Sequence

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.manifests import environment_server, workload
from agentrl_operator.planning.actions import Action, ApplyEnvironment, ApplyToken, RemoveServers
from agentrl_operator.planning.observation import Observed, Unknown
from agentrl_operator.planning.situation import Situation
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo


def removed(resource: Resource) -> list[Action]:
    """What removes every server that the run may have, seen yet or not: none may work when its
    quota is given back, and what was made a moment ago is not seen at once."""
    environments = _served(resource.run) if resource.run is not None else []
    return [RemoveServers(deployment=resource.child(one.name)) for one in environments]


def served(situation: Situation, run: AgentRLRun, status: Status) -> tuple[list[Action], Status]:
    """What brings the servers to what the manifest says, and the condition that tells of them."""
    resource, observed, now = situation.resource, situation.observed, situation.now
    changed: list[Environment] = []
    behind: list[str] = []
    environments = _served(run)
    for environment in environments:
        servers = observed.servers.get(resource.child(environment.name))
        if servers is None or servers.manifest != environment_server.fingerprint(
            resource, run, environment, situation.platform, _nodes(environment, observed)
        ):
            changed.append(environment)
        ready, wanted = (servers.ready, servers.wanted) if servers else (0, environment.replicas)
        if ready < wanted:
            behind.append(f"{environment.name}: {ready} of {wanted} servers answer")
    if not environments:
        message = "no environment needs a server of its own"
        status = status.told(Kind.ENVIRONMENTS_READY, "True", Reason.NONE_SERVED, message, now)
    elif behind:
        message = "; ".join(behind)
        status = status.told(Kind.ENVIRONMENTS_READY, "False", Reason.STARTING, message, now)
    else:
        message = "every server answers"
        status = status.told(Kind.ENVIRONMENTS_READY, "True", Reason.READY, message, now)
    return _applied(changed, observed), status


def renewed(run: AgentRLRun, observed: Observed) -> list[Action]:
    """Everything the servers need, as when an attempt begins: a Service or a Secret that somebody
    deleted is not watched, and is made anew here."""
    return _applied(_served(run), observed)


def _served(run: AgentRLRun) -> list[Environment]:
    return [one for one in run.spec.environments if resolve.is_managed(one)]


def _applied(environments: Sequence[Environment], observed: Observed) -> list[Action]:
    if not environments:
        return []
    token = ApplyToken(servers=tuple(sorted(observed.servers)))
    return [
        token,
        *(
            ApplyEnvironment(environment=one.name, nodes=_nodes(one, observed))
            for one in environments
        ),
    ]


def _nodes(environment: Environment, observed: Observed) -> PodSetInfo:
    """Where Kueue has its servers run."""
    if isinstance(observed.nodes, Unknown):
        return UNCONSTRAINED
    return observed.nodes.get(workload.servers(environment), UNCONSTRAINED)
