"""What the operator observed of a run's dependencies at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from agentrl_components.schedule.record import Decision
from agentrl_components.storage.records import RunState, TrackerRecord
from agentrl_operator.api.conditions import Kind, Reason
from agentrl_operator.api.kfp_run import KfpRun
from agentrl_operator.api.resource import Resource
from agentrl_operator.api.status import Status
from agentrl_operator.manifests.workload import Priority, Workload
from agentrl_pipelines.platform.config import Platform
from agentrl_pipelines.platform.kueue_pods import PodSetInfo
from agentrl_pipelines.platform.pod_sets import HEAD


def may_have_workload(resource: Resource, status: Status, platform: Platform) -> bool:
    """Whether a Kueue Workload may exist for the run: it names a queue, or did so earlier."""
    if platform.kueue.admission != "run":
        return False
    return resource.stated.queued or status.condition(Kind.ADMITTED) is not None


def may_have_ray_cluster(resource: Resource, status: Status) -> bool:
    """Whether a RayCluster may exist for the run: its manifest wants one, or did so earlier."""
    return (resource.stated.ray and not status.finished) or status.ray is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayCluster:
    """The RayCluster of a run and its pods."""

    manifest: str
    """Hash of the spec that it was created from."""
    deleting: bool
    """Whether it is being deleted."""
    wanted: Mapping[str, int]
    """Trainers and samplers by group, and the head, which counts as one."""
    ready: Mapping[str, int]
    """Those of them whose pod is ready, by group."""
    problem: str = ""
    """Why pods cannot be created, start or end."""
    blocked: bool = False
    """Whether a pod cannot start unless something else changes."""
    may_lack_object: bool = False
    """Whether a pod cannot start for a reason that creating a Secret again may end."""
    waits_for: Reason | None = None
    """What its pods wait for, or that they are not created. None: nothing but their own start."""
    queued: bool = False
    """Whether it has no pod that Kueue has admitted: all wait, or Kueue has suspended the cluster,
    which has no pods then, or had to give them up."""

    @property
    def complete(self) -> bool:
        """Whether every pod is ready."""
        return not (self.deleting or self.queued) and all(
            self.ready.get(group, 0) >= count for group, count in self.wanted.items()
        )

    @property
    def workers(self) -> str:
        """The trainers and samplers in ready pods, as text: `trainers 2/2, samplers 1/2`."""
        groups = {name: count for name, count in self.wanted.items() if name != HEAD}
        return ", ".join(f"{name} {self.ready.get(name, 0)}/{n}" for name, n in groups.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """An environment's Deployment, or its Sandboxes."""

    manifest: str
    """Hash of the manifest that it was created from."""
    ready: int
    """Number of ready replicas."""
    wanted: int
    """Number of replicas in its spec."""
    outdated: int = 0
    """Number of pods of an earlier template: they serve until those of the new one are ready."""
    observed: bool = True
    """Whether Kubernetes has seen its spec. Until then, the numbers are about an earlier one."""
    problem: str = ""
    """Why its pods cannot be created."""
    sandboxed: bool = False
    """Whether they are Sandboxes."""

    @property
    def settled(self) -> bool:
        """Whether all pods are of its present template."""
        return self.observed and not self.outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLoad:
    """The load of one server at one moment."""

    pod: str
    sessions: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSample:
    """The loads of all servers of an environment at one moment."""

    age_s: float
    """Age of the sample, in seconds."""
    loads: tuple[ServerLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLoad:
    """What is known of the load of an environment's servers."""

    samples: tuple[FleetSample, ...] = ()
    """The oldest first."""
    autoscaler: Literal["none", "due", "there"] = "none"
    """Whether the cluster has the metric for a HorizontalPodAutoscaler. due: create or update it
    now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A value that is unknown because a dependency did not answer or refused."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that `reconcile` needs to know, for the phase that the status names."""

    attempt: int = 0
    """The newest attempt at the phase that KFP has, at least the status's."""
    kfp: KfpRun | Unknown | None = None
    """The KFP run of that attempt. None: it does not exist."""
    others: Mapping[str, KfpRun] = field(default_factory=lambda: MappingProxyType({}))
    """Only for a deleted run: the other runs of its KFP experiment, by ID. If KFP does not answer:
    those that still have a pod."""
    deleting_s: float = 0.0
    """Seconds since this operator first observed that the run is being deleted. Time during which
    no operator acted does not count."""
    workflow: Literal["unknown", "there", "missing", "lost"] = "unknown"
    """lost: KFP reports the run as alive, but its Workflow was missing in two checks."""
    pods: int | None = None
    """Number of pods of these KFP runs that have not ended. None: not observed."""
    pods_unread: bool = False
    """Whether Kubernetes does not show them. Only for a deleted run."""
    stuck_pods: str = ""
    """Which of them do not end although they were asked to, and why."""
    pod_problem: str = ""
    """Why pods cannot start, or what ended them."""
    server_problem: str = ""
    """Why pods of environment servers cannot work."""
    waits_for: Reason | None = None
    """What needed pods wait for: those of the attempt, and all pods of an environment without a
    ready server or, before a phase, with servers that are being replaced. None: nothing but their
    own start."""
    queued: bool = False
    """Whether no stage works because needed pods wait in Kueue's queue."""
    blocked_s: float | None = None
    """Seconds for which a needed pod has been unable to start. None: all of them can start."""
    restore_due: bool = False
    """Whether it is time to create again what somebody may have deleted."""
    may_lack_object: bool = False
    """Whether a pod cannot start that may lack an object, such as the token Secret."""
    servers: Mapping[str, Servers] = field(default_factory=lambda: MappingProxyType({}))
    """Environment servers, by name of the Deployment or, without the number, of the Sandboxes."""
    sandboxes_unavailable: str = ""
    """Why no Sandbox can be created; empty: they can, or the run has none."""
    sandboxes_unread: bool = False
    """Whether Kubernetes refuses to list Sandboxes: the run may own some that `servers` lacks."""
    ray_cluster: RayCluster | Unknown | None = None
    """The run's Ray cluster. None: it does not exist, or the run has none."""
    ray_blocked_s: float | None = None
    """Seconds for which a pod of the Ray cluster has been unable to start. None: all can start."""
    fleets: Mapping[str, FleetLoad] = field(default_factory=lambda: MappingProxyType({}))
    """The load of the environments with `scaling`, by name of the environment."""
    run_state: RunState | Unknown | None = None
    """The state that the stages keep in the run's store. None: not written yet, or not observed."""
    decision: Decision | Unknown | None = None
    """The stored decision that ends the phase. None: not made yet, or not observed."""
    workload: Workload | None = None
    """The run's Kueue Workload. None: it does not exist, or was not observed."""
    nodes: Mapping[str, PodSetInfo] | Unknown = field(default_factory=lambda: MappingProxyType({}))
    """Where Kueue assigned the run's pods, by pod set."""
    priority: Priority | Unknown | None = None
    """The priority that the Workload should have and lacks. Unknown: the class does not exist."""
    mlflow_run: TrackerRecord | Unknown | None = None
    """The MLflow run, as the run's store has it. None: not observed."""

    @property
    def phase_succeeded(self) -> bool:
        """Whether the attempt's KFP run succeeded."""
        return isinstance(self.kfp, KfpRun) and self.kfp.succeeded

    @property
    def workflow_lost(self) -> bool:
        """Whether KFP reports the attempt as alive although its Workflow is gone."""
        return isinstance(self.kfp, KfpRun) and self.kfp.alive and self.workflow == "lost"

    @property
    def unavailable(self) -> list[str]:
        """The dependencies that did not answer, as the metrics name them."""
        values = {
            "kfp": (self.kfp,),
            "run_store": (self.run_state, self.decision, self.mlflow_run),
        }
        return [
            name
            for name, answers in values.items()
            if any(isinstance(answer, Unknown) for answer in answers)
        ]
