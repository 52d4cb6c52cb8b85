"""The pods that a run has on Kubernetes at the same time, and what they request."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from agentrl_components.spec import AgentRLRun, Compute, Environment, Samplers, Trainers
from agentrl_components.spec.fields.compute import SAMPLERS, TRAINERS
from agentrl_components.spec.quantities import added, multiplied, quantity_value
from agentrl_envs import registry
from agentrl_pipelines.labels import DISK_RESOURCE, GPU_RESOURCE
from agentrl_pipelines.platform import resolve

STAGES = {"colocated": ("train",), "disaggregated": ("rollout", "update")}
"""The stages that hold the model at the same time, by `compute.placement`. Each is a pod set."""
HEAD = "head"
HEAD_REQUESTS = {"cpu": "500m", "memory": "2Gi"}
"""Requests of the head of a Ray cluster, which runs Ray's control service and dashboard and no
actor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """A group of equal pods, as Kueue counts them."""

    name: str
    count: int
    requests: Mapping[str, str]
    """What each pod requests."""
    owner: Compute | Environment
    """What has the node selector and the tolerations of the pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup:
    """Equal pods of a Ray cluster, each of which holds some of its trainers or samplers."""

    name: str
    """Also the name of a resource of the pods' Ray nodes, of which each actor takes one."""
    spec: Trainers | Samplers
    storage_class: str | None
    """The StorageClass of a volume for the temporary files of each pod. None: the node's disk."""

    @property
    def pods(self) -> int:
        """Number of pods."""
        return self.spec.count // self.spec.per_pod

    @property
    def requests(self) -> dict[str, str]:
        """What a pod requests. A volume is no request: it is a claim of its own."""
        one = self.spec
        gpus = {GPU_RESOURCE: str(one.gpus * one.per_pod)} if one.gpus else {}
        disk = {DISK_RESOURCE: self.disk} if self.disk and self.storage_class is None else {}
        each = {"cpu": one.cpu, "memory": one.memory}
        return (
            {name: multiplied(amount, one.per_pod) for name, amount in each.items()} | gpus | disk
        )

    @property
    def disk(self) -> str | None:
        """Room for temporary files that a pod asks for. None: it asks for none."""
        one = self.spec
        return None if one.disk is None else multiplied(one.disk, one.per_pod)


def worker_groups(compute: Compute) -> tuple[WorkerGroup, ...]:
    """The worker groups of a run's own Ray cluster. Samplers that share GPUs with trainers are in
    the pods of these."""
    trainers, samplers = compute.trainers or Trainers(), compute.samplers or Samplers()
    if compute.share_gpus:
        both = _with_samplers(trainers, samplers)
        return (WorkerGroup(name=TRAINERS, spec=both, storage_class=compute.storage_class),)
    return (
        WorkerGroup(name=TRAINERS, spec=trainers, storage_class=compute.storage_class),
        WorkerGroup(name=SAMPLERS, spec=samplers, storage_class=compute.storage_class),
    )


def _with_samplers(trainers: Trainers, samplers: Samplers) -> Trainers:
    """Trainers that each request what a sampler needs, too."""
    disk = trainers.disk
    if disk is not None and samplers.disk is not None:
        disk = added(disk, samplers.disk)
    requests = {
        "cpu": added(trainers.cpu, samplers.cpu),
        "memory": added(trainers.memory, samplers.memory),
        "disk": disk,
    }
    return trainers.model_copy(update=requests)


def pod_sets(run: AgentRLRun) -> list[PodSet]:
    """The most pods that a phase of a run needs at any time. The stage provision runs before those
    that hold the model, evaluation after them, and both need no more; the other stages are small
    and not counted."""
    servers = (_servers(one) for one in run.spec.environments if resolve.is_managed(one))
    return [*_stages(run.spec.compute), *_ray(run.spec.compute), *servers]


def shared_pod_sets(run: AgentRLRun) -> list[PodSet]:
    """The same pods in fewer pod sets, whose number Kueue limits: environments whose servers
    request the same and may run on the same nodes share one, which is named after the first of
    them."""
    shared: dict[Hashable, PodSet] = {}
    for environment in filter(resolve.is_managed, run.spec.environments):
        kind, one = _kind(environment), _servers(environment)
        first = shared.get(kind)
        shared[kind] = one if first is None else replace(first, count=first.count + one.count)
    return [*_stages(run.spec.compute), *_ray(run.spec.compute), *shared.values()]


def _stages(compute: Compute) -> list[PodSet]:
    requests = {"cpu": compute.cpu, "memory": compute.memory}
    if compute.gpus:
        requests[GPU_RESOURCE] = str(compute.gpus)
    return [
        PodSet(name=stage, count=1, requests=requests, owner=compute)
        for stage in STAGES[compute.placement]
    ]


def _ray(compute: Compute) -> list[PodSet]:
    """The pods of the run's Ray cluster, which it keeps over its phases."""
    if compute.ray != "cluster":
        return []
    head = PodSet(name=ray_set(HEAD), count=1, requests=HEAD_REQUESTS, owner=compute)
    return [
        head,
        *(
            PodSet(name=ray_set(one.name), count=one.pods, requests=one.requests, owner=compute)
            for one in worker_groups(compute)
        ),
    ]


def _servers(environment: Environment) -> PodSet:
    """The servers of an environment. With `scaling` the largest number of them counts."""
    return PodSet(
        name=environment_set(environment),
        count=resolve.replicas(environment)[1],
        requests=server_requests(environment),
        owner=environment,
    )


def ray_set(group: str) -> str:
    """The name of the pod set of a worker group, or of the head."""
    return f"ray-{group}"


def environment_set(environment: Environment) -> str:
    """The name of the pod set of an environment's servers, if it has one of its own."""
    return f"environment-{environment.name}"


def shared_set(run: AgentRLRun, environment: Environment) -> str:
    """The name of the pod set of a managed environment's servers in `shared_pod_sets`."""
    kind = _kind(environment)
    managed = (one for one in run.spec.environments if resolve.is_managed(one))
    return environment_set(next(one for one in managed if _kind(one) == kind))


def _kind(environment: Environment) -> Hashable:
    """What Kueue chooses nodes by for the servers of an environment."""
    requests = server_requests(environment)
    amounts = tuple(quantity_value(requests[name]) for name in ("cpu", "memory"))
    return amounts, frozenset(environment.node_selector.items()), environment.tolerations


def server_requests(environment: Environment) -> dict[str, str]:
    """What one server of an environment requests."""
    needed_mib = registry.needs(environment.builtin or "").memory_mib
    return {"cpu": environment.cpu, "memory": environment.memory or f"{needed_mib}Mi"}
