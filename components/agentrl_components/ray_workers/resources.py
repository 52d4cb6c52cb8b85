"""What trainers and samplers reserve on Ray."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl_components.errors import SpecError
from agentrl_components.spec import Compute, Samplers, Trainers
from agentrl_components.spec.fields.compute import SAMPLERS, TRAINERS
from agentrl_components.spec.quantities import quantity_value, whole_cpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one actor reserves."""

    cpus: float
    gpus: int
    memory: int
    """Bytes. 0: none is reserved."""
    group: str = ""
    """The worker group of the run's own cluster, and the Ray resource of its nodes of which each
    actor takes one. Empty: the cluster has no such groups."""

    def options(self) -> dict[str, Any]:
        """As arguments of Ray's `options`."""
        wanted: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        group = {"resources": {self.group: 1}} if self.group else {}
        return wanted | ({"memory": self.memory} if self.memory else {}) | group


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedGpu:
    """The GPU of a trainer, which it and one sampler use in turns."""

    rank: int
    """The trainer."""
    node: str
    """Ray's id of the machine."""
    number: str
    """Its number on that machine. Empty: the trainer computes on the CPU."""

    def options(self) -> dict[str, Any]:
        """Arguments of Ray's `options` for the sampler, which reserves nothing itself."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(self.node, soft=False)
        return {"num_cpus": 0, "num_gpus": 0, "scheduling_strategy": strategy}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservations:
    """What all actors of a run reserve."""

    trainers: Trainers
    samplers: Samplers
    trainer: Reservation
    sampler: Reservation
    """With `shared` it is what samplers reserve that play without trainers."""
    shared: bool = False
    """Whether each sampler uses the GPU of a trainer (`SharedGpu`)."""

    @property
    def cpus(self) -> float:
        """CPUs of all actors together."""
        return self._total(self.trainer.cpus, self.sampler.cpus)

    @property
    def gpus(self) -> int:
        """GPUs of all actors together."""
        return int(self._total(self.trainer.gpus, self.sampler.gpus))

    def places(self, *, trains: bool) -> list[Reservation]:
        """What each actor reserves: trainers, and then samplers. `trains` is false for an
        evaluation, which has no trainers."""
        trainers = [self.trainer] * self.trainers.count if trains else []
        own = not (trains and self.shared)
        return trainers + ([self.sampler] * self.samplers.count if own else [])

    def _total(self, trainer: float, sampler: float) -> float:
        own = 0 if self.shared else self.samplers.count * sampler
        return self.trainers.count * trainer + own

    @property
    def own_cluster(self) -> bool:
        """Whether the cluster is the run's own, with nodes for exactly these actors."""
        return bool(self.trainer.group)

    def check(self, available: Mapping[str, float]) -> None:
        """Raise `SpecError` if a Ray cluster with the resources `available` is too small."""
        for name, needed in (("GPU", self.gpus), ("CPU", self.cpus)):
            found = available.get(name, 0.0)
            if needed > found:
                raise SpecError(
                    [
                        f"spec.compute.trainers.count: {self.trainers.count} trainers and "
                        f"{self.samplers.count} samplers need {needed:g} {name}s, but Ray has "
                        f"{found:g}; lower count of spec.compute.trainers or spec.compute.samplers"
                    ]
                )

    def check_nodes(self, nodes: Sequence[Mapping[str, float]]) -> None:
        """Raise `SpecError` if an actor fits on no node; `nodes` are their resources. Ray would
        wait for such a node without a limit."""
        if not nodes:
            return  # the head did not say which there are
        wanted = (
            ("samplers.gpus", "GPU", self.sampler.gpus),
            ("trainers.cpu", "CPU", self.trainer.cpus),
            ("trainers.memory", "memory", self.trainer.memory),
        )
        for name, resource, needed in wanted:
            most = max(node.get(resource, 0.0) for node in nodes)
            if needed > most:
                raise SpecError(
                    [
                        f"spec.compute.{name}: {needed:g} ({resource}) must be on one machine, and "
                        f"the largest one of the Ray cluster has {most:g}; lower it"
                    ]
                )

    def missing(self, available: Mapping[str, float]) -> str:
        """Which nodes the run's own cluster with the resources `available` lacks, in words; empty
        if none."""
        groups = {TRAINERS: self.trainers.count}
        if not self.shared:
            groups[SAMPLERS] = self.samplers.count
        found = {name: int(available.get(name, 0)) for name in groups}
        if all(found[name] >= count for name, count in groups.items()):
            return ""
        return ", ".join(f"{found[name]} of {count} {name}" for name, count in groups.items())


def reservations(compute: Compute) -> Reservations:
    """What the actors of a manifest reserve. An embedded Ray reserves no memory: the run's
    processes share this machine as without Ray."""
    trainers, samplers = compute.trainers or Trainers(), compute.samplers or Samplers()
    if compute.ray == "cluster":
        trainer = _node(trainers.cpu, trainers.gpus, TRAINERS)
        sampler = _node(samplers.cpu, samplers.gpus, SAMPLERS)
    else:
        memory = 0 if compute.ray == "embedded" else int(quantity_value(trainers.memory))
        trainer = Reservation(cpus=quantity_value(trainers.cpu), gpus=trainers.gpus, memory=memory)
        sampler = Reservation(cpus=1.0, gpus=samplers.gpus, memory=0)
    return Reservations(
        trainers=trainers,
        samplers=samplers,
        trainer=trainer,
        sampler=trainer if compute.share_gpus else sampler,
        shared=compute.share_gpus,
    )


def use_assigned_gpus() -> None:
    """In an actor, before it uses a GPU: show it the GPUs that Ray has assigned to it, and no
    others. Ray does so itself, unless `RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES` is set on the
    node: then all actors would use the first GPU."""
    if assigned := assigned_gpus():
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(assigned)


def assigned_gpus() -> list[str]:
    """In an actor: the numbers of the GPUs that Ray has assigned to it."""
    import ray

    return list(ray.get_runtime_context().get_accelerator_ids().get("GPU", []))


def _node(cpu: str, gpus: int, group: str) -> Reservation:
    """A place on a node of the run's own cluster, whose pod limits the memory."""
    return Reservation(cpus=float(whole_cpus(cpu)), gpus=gpus, memory=0, group=group)
