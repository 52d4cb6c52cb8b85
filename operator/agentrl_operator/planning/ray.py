"""The Ray cluster of a run: it must exist and be complete before a phase starts, and it stays over
the phases. KubeRay replaces its pods; while a phase works, the operator does not touch it."""

from __future__ import annotations

from agentrl_components.spec import AgentRLRun
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.status import Ray, Status
from agentrl_operator.manifests import ray_cluster
from agentrl_operator.planning.actions import Action, CreateRayCluster, DeleteRayCluster
from agentrl_operator.planning.observation import Observation, RayCluster, Unknown
from agentrl_operator.planning.plan import Situation
from agentrl_pipelines.platform import resolve

DASHBOARD_PORT, METRICS_PORT = 8265, 8080
"""Ports of the head."""


def cluster_updates(
    situation: Situation, run: AgentRLRun, status: Status
) -> tuple[list[Action], Status]:
    """Actions that make the RayCluster as the manifest says, and `status` with what is there. One
    that differs is replaced when no phase works."""
    seen = situation.observation.ray_cluster
    if not ray_cluster.is_wanted(run):
        status = status.with_(ray=None) if seen is None else status
        unused = isinstance(seen, RayCluster) and not situation.is_working
        return [DeleteRayCluster()] if unused else [], status
    status = _with_condition(situation, run, status)
    nodes = situation.observation.nodes
    if isinstance(seen, Unknown) or isinstance(nodes, Unknown):
        return [], status
    if seen is None:
        return [CreateRayCluster(nodes=nodes)], status
    wanted = ray_cluster.fingerprint(situation.resource, run, situation.platform, nodes)
    outdated = seen.manifest != wanted and not seen.deleting
    return [DeleteRayCluster()] if outdated and not situation.is_working else [], status


def missing(situation: Situation, run: AgentRLRun) -> tuple[Reason, str] | None:
    """Why a phase cannot start: the Ray cluster is not complete. None: it can start."""
    seen = situation.observation.ray_cluster
    if not ray_cluster.is_wanted(run):
        return None
    if isinstance(seen, Unknown):
        return Reason.KUBERAY_UNAVAILABLE, seen.message
    if seen is None:
        return Reason.RAY_STARTING, "creating the Ray cluster"
    detail = f"; {seen.problem}" if seen.problem else ""
    if seen.deleting:
        return Reason.RAY_STARTING, f"replacing the Ray cluster{detail}"
    nodes = situation.observation.nodes
    wanted = ray_cluster.fingerprint(
        situation.resource, run, situation.platform, {} if isinstance(nodes, Unknown) else nodes
    )
    if seen.manifest != wanted:
        return Reason.RAY_STARTING, "replacing the Ray cluster: the manifest has changed"
    if seen.complete:
        return None
    reason = seen.waits_for or Reason.RAY_STARTING
    return reason, f"waiting for the Ray cluster: {seen.workers}{detail}"


def queue_text(observation: Observation) -> str:
    """What the stages of a phase wait for, if Kueue has taken the pods of the Ray cluster."""
    seen = observation.ray_cluster
    if not isinstance(seen, RayCluster) or not seen.queued:
        return ""
    return f"waiting for the Ray cluster: {seen.problem}"


def with_unread_cluster(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    """`status` that names a Ray cluster which cannot be read, so that it is looked for until it is
    known to be gone."""
    unread = isinstance(situation.observation.ray_cluster, Unknown)
    if not unread or status.ray is not None or not ray_cluster.is_wanted(run):
        return status
    return _with_ray(situation, run, status, "unknown")


def _with_ray(situation: Situation, run: AgentRLRun, status: Status, workers: str) -> Status:
    host = resolve.ray_host(run, situation.resource.uid, situation.platform)
    return status.with_(
        ray=Ray(
            cluster=ray_cluster.name(situation.resource),
            workers=workers,
            dashboard_url=f"http://{host}:{DASHBOARD_PORT}",
            metrics_url=f"http://{host}:{METRICS_PORT}",
        )
    )


def _with_condition(situation: Situation, run: AgentRLRun, status: Status) -> Status:
    seen, now = situation.observation.ray_cluster, situation.now
    kind = Kind.RAY_CLUSTER_READY
    if isinstance(seen, Unknown):
        reason = Reason.KUBERAY_UNAVAILABLE
        return status.with_condition(kind, "False", reason, seen.message, now)
    workers = seen.workers if seen is not None else "not created yet"
    status = _with_ray(situation, run, status, workers)
    if seen is not None and seen.complete:
        return status.with_condition(kind, "True", Reason.READY, workers, now)
    detail = f"; {seen.problem}" if seen is not None and seen.problem else ""
    return status.with_condition(kind, "False", Reason.STARTING, f"{workers}{detail}", now)
