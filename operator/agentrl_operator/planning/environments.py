"""The environment servers of a run: which must exist, and whether they are ready."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agentrl_components.spec import AgentRLRun, Environment
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.manifests import environment_server, ray_cluster, sandbox
from agentrl_operator.manifests.server_fingerprint import is_current, is_same_queue, is_same_run
from agentrl_operator.planning.actions import (
    Action,
    ApplyAutoscaler,
    ApplyEnvironment,
    CreateTokenSecret,
    DeleteAutoscaler,
    DeleteDeployment,
    DeleteRayCluster,
    DeleteSandboxes,
    ScaleEnvironment,
)
from agentrl_operator.planning.observation import FleetLoad, Observation, Unknown
from agentrl_operator.planning.plan import Situation
from agentrl_operator.planning.scaling import servers_wanted
from agentrl_pipelines.platform import resolve
from agentrl_pipelines.platform.kueue_pods import UNCONSTRAINED, PodSetInfo
from agentrl_pipelines.platform.pod_sets import environment_set, shared_set


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """How the servers of an environment are made as they should be."""

    environment: Environment
    action: ApplyEnvironment | DeleteDeployment
    """They are deleted to be made again if Kueue does not let them be changed."""
    due: bool
    """Whether the action would change them."""


def possible_server_deletions(resource: Resource, status: Status) -> list[Action]:
    """Actions that delete all servers and the Ray cluster that the run may have, observed or not.
    Used before quota is released: what was created a moment ago may not be observed yet."""
    run, deletions = resource.run, list[Action]()
    if run is not None:
        deletions += [
            DeleteDeployment(deployment=resource.child(one.name))
            for one in _with_servers(run)
            if not sandbox.is_sandboxed(one)
        ]
    if run is not None and sandbox.is_wanted(run):
        deletions.append(DeleteSandboxes())
    if status.ray is not None or (run is not None and ray_cluster.is_wanted(run)):
        deletions.append(DeleteRayCluster())
    return deletions


def unused_server_deletions(situation: Situation, run: AgentRLRun) -> list[Action]:
    """Actions that delete the servers of environments that run inside the stages since an edit of
    `replicas` to 0. None while a phase works: its stages use these servers to its end."""
    if situation.is_working:
        return []
    used = {situation.resource.child(one.name) for one in _with_servers(run)}
    servers = sorted(situation.observation.servers.items())
    # `backend: sandbox` requires servers.
    unused = [name for name, one in servers if name not in used and not one.sandboxed]
    return [DeleteDeployment(deployment=name) for name in unused]


def missing(situation: Situation, run: AgentRLRun) -> tuple[Reason, str] | None:
    """Why a phase cannot start. None: it can.

    Either servers cannot be created, or an environment has no ready one: its stages would wait for
    one server of each, and fail after some minutes. Or servers are being replaced: the phase would
    check the tasks of the old ones, lose their sessions, and go on with the new ones."""
    observation, resource = situation.observation, situation.resource
    if observation.sandboxes_unavailable:
        return Reason.AGENT_SANDBOX_UNAVAILABLE, observation.sandboxes_unavailable
    unserved, replaced, refused = list[str](), list[str](), False
    for update in _all_updates(situation, run):
        name = update.environment.name
        servers = observation.servers.get(resource.child(name))
        if servers is None or servers.ready == 0:
            unserved.append(name)
        elif update.due or not servers.settled:
            replaced.append(name)
        else:
            continue
        refused |= servers is not None and bool(servers.problem)
    waits = [f"waiting for a server of {', '.join(unserved)}"] if unserved else []
    waits += [f"waiting for the new servers of {', '.join(replaced)}"] if replaced else []
    if not waits:
        return None
    starting = Reason.POD_NOT_CREATED if refused else Reason.ENVIRONMENTS_STARTING
    return observation.waits_for or starting, "; ".join((*waits, *_problems(observation)))


def server_updates(
    situation: Situation, run: AgentRLRun, status: Status
) -> tuple[list[Action], Status]:
    """Actions that make the servers as the manifest says, and `status` with the EnvironmentsReady
    condition."""
    observation, now = situation.observation, situation.now
    environments = _with_servers(run)
    due = [one for one in _all_updates(situation, run) if one.due]
    not_ready = _not_ready(situation, environments)
    problems = _problems(observation)
    kind = Kind.ENVIRONMENTS_READY
    if not environments:
        message = "no environment needs a server of its own"
        status = status.with_condition(kind, "True", Reason.NONE_SERVED, message, now)
    elif observation.sandboxes_unavailable:
        message = "; ".join((observation.sandboxes_unavailable, *problems))
        reason = Reason.AGENT_SANDBOX_UNAVAILABLE
        status = status.with_condition(kind, "False", reason, message, now)
    elif not_ready:
        message = "; ".join((*not_ready, *problems))
        status = status.with_condition(kind, "False", Reason.STARTING, message, now)
    else:
        message = "all environment servers are ready"
        status = status.with_condition(kind, "True", Reason.READY, message, now)
    return [*_actions(due, situation), *_scaling_updates(situation, environments, due)], status


def _problems(observation: Observation) -> list[str]:
    """Why servers cannot be created, or their pods cannot start, each reason once."""
    servers = (one.problem for _, one in sorted(observation.servers.items()))
    problems = (*servers, observation.server_problem)
    return list(dict.fromkeys(one for one in problems if one))


def _not_ready(situation: Situation, environments: Iterable[Environment]) -> list[str]:
    """Which environments have fewer ready servers than they should, or outdated ones, in words."""
    found = []
    for environment in environments:
        servers = situation.observation.servers.get(situation.resource.child(environment.name))
        wanted, _ = resolve.replicas(environment)  # with `scaling`, more may be on their way
        if servers is not None and environment.scaling is None:
            wanted = servers.wanted
        ready = servers.ready if servers else 0
        if ready < wanted:
            found.append(f"{environment.name}: {ready} of {wanted} servers are ready")
        elif servers is not None and servers.outdated:
            found.append(f"{environment.name}: servers still to be replaced: {servers.outdated}")
    return found


def _scaling_updates(
    situation: Situation, environments: Iterable[Environment], due: Iterable[_Update]
) -> list[Action]:
    """Actions that adapt the numbers of servers to the sessions in use. An autoscaler goes with
    servers that change."""
    resource, observation = situation.resource, situation.observation
    changed = [one.environment for one in due]
    actions: list[Action] = []
    for environment in environments:
        name, scaling = resource.child(environment.name), environment.scaling
        servers = observation.servers.get(name)
        if servers is None or scaling is None:
            continue
        fleet = observation.fleets.get(environment.name, FleetLoad())
        if fleet.autoscaler != "none":
            if fleet.autoscaler == "due" or environment in changed:
                actions.append(ApplyAutoscaler(environment=environment.name))
        else:
            replicas = servers_wanted(servers.wanted, fleet.samples, scaling)
            loads = fleet.samples[-1].loads if replicas < servers.wanted and fleet.samples else ()
            sessions = {load.pod: load.sessions for load in loads}
            if replicas != servers.wanted:
                actions.append(
                    ScaleEnvironment(deployment=name, replicas=replicas, sessions=sessions)
                )
    return actions


def all_server_updates(situation: Situation, run: AgentRLRun, *, secret: bool) -> list[Action]:
    """Actions that create everything the servers need, at the beginning of an attempt and now and
    then: Services and the token Secret are not watched, and somebody may have deleted one. With
    `secret` also the latter, which the operator may not read: quotas count a repetition."""
    updates = _all_updates(situation, run)
    due = [one for one in updates if one.due]
    scaling = _scaling_updates(situation, _with_servers(run), due)
    create = [one for one in _actions(updates, situation) if secret or not _is_secret(one)]
    return [*create, *scaling]


def _is_secret(action: Action) -> bool:
    return isinstance(action, CreateTokenSecret)


def _with_servers(run: AgentRLRun) -> list[Environment]:
    return [one for one in run.spec.environments if resolve.is_managed(one)]


def _all_updates(situation: Situation, run: AgentRLRun) -> list[_Update]:
    return [_update(situation, run, one) for one in _with_servers(run)]


def _update(situation: Situation, run: AgentRLRun, environment: Environment) -> _Update:
    """How the servers of an environment are made as the manifest says. While a phase works, its
    servers are not replaced because the platform or the operator has changed: all sessions would be
    lost, and other servers would play the rest of the phase. Servers that Kueue does not let
    change, because the queue has changed, are kept too, and made again between two phases."""
    resource, observation = situation.resource, situation.observation
    name = resource.child(environment.name)
    servers = observation.servers.get(name)
    nodes = _nodes(run, environment, observation)
    sandboxed = sandbox.is_sandboxed(environment)
    form = sandbox if sandboxed else environment_server
    wanted = form.fingerprint(resource, run, environment, situation.platform, nodes)
    keep, due = False, True
    if servers is not None and is_current(servers.manifest, wanted):
        # They are not written again: somebody may have restarted them.
        keep, due = True, False
    elif servers is not None and situation.is_working:
        same_queue = is_same_queue(servers.manifest, wanted)
        same_run = is_same_run(servers.manifest, wanted) or not same_queue
        keep = sandboxed or same_run
        # A fingerprint of Sandboxes covers their number, one of a Deployment does not.
        fixed = not sandboxed and environment.scaling is None
        due = not same_run or (fixed and servers.wanted != environment.replicas)
    elif servers is not None and not is_same_queue(servers.manifest, wanted):
        deletion = DeleteDeployment(deployment=name)
        return _Update(environment=environment, action=deletion, due=True)
    action = ApplyEnvironment(
        environment=environment.name, nodes=nodes, exists=servers is not None, keep_servers=keep
    )
    return _Update(environment=environment, action=action, due=due)


def _actions(updates: Iterable[_Update], situation: Situation) -> list[Action]:
    observation = situation.observation
    if observation.sandboxes_unavailable:
        updates = [one for one in updates if not sandbox.is_sandboxed(one.environment)]
    actions = [action for one in updates for action in _update_actions(one, situation)]
    secret = CreateTokenSecret(servers=tuple(sorted(observation.servers)))
    return [secret, *actions] if actions else []


def _update_actions(update: _Update, situation: Situation) -> list[Action]:
    """Servers that change and are not scaled may have been scaled before. Their autoscaler is
    deleted first: if that fails, they still differ from the manifest, and it is tried again."""
    name = situation.resource.child(update.environment.name)
    there = name in situation.observation.servers
    changes = update.due and isinstance(update.action, ApplyEnvironment)
    if there and changes and update.environment.scaling is None:
        return [DeleteAutoscaler(deployment=name), update.action]
    return [update.action]


def _nodes(run: AgentRLRun, environment: Environment, observation: Observation) -> PodSetInfo:
    """Where Kueue assigned its servers. In a Workload of an earlier operator, each environment has
    a pod set of its own."""
    if isinstance(observation.nodes, Unknown):
        return UNCONSTRAINED
    own, shared = environment_set(environment), shared_set(run, environment)
    return observation.nodes.get(own, observation.nodes.get(shared, UNCONSTRAINED))
