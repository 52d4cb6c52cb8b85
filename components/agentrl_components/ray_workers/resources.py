"""What trainers and samplers reserve on Ray."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentrl_components.errors import SpecError
from agentrl_components.spec import Compute, Samplers, Trainers
from agentrl_components.spec.fields.compute import SAMPLERS, TRAINERS
from agentrl_components.spec.quantities import quantity_value, whole_cpus

RAYS_UNIT = 1e-4
"""The smallest amount of a resource that Ray counts."""


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

    def needs(self) -> dict[str, float]:
        """What is reserved, by Ray's names."""
        amounts = {"CPU": self.cpus, "GPU": float(self.gpus), "memory": float(self.memory)}
        return {name: amount for name, amount in amounts.items() if amount}

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
        trainers, samplers = self.counts(trains=trains)
        return [self.trainer] * trainers + [self.sampler] * samplers

    def counts(self, *, trains: bool) -> tuple[int, int]:
        """How many trainers reserve something, and how many samplers."""
        own = not (trains and self.shared)
        return self.trainers.count if trains else 0, self.samplers.count if own else 0

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

    def check_nodes(self, nodes: Sequence[Mapping[str, float]], *, trains: bool = True) -> None:
        """Raise `SpecError` if the actors do not fit on the nodes, however they are placed, when
        nobody else uses them; `nodes` are their resources. `trains` is that of `places`. Ray would
        wait for other nodes without a limit."""
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
        self._check_places(nodes, trains=trains)

    def _check_places(self, nodes: Sequence[Mapping[str, float]], *, trains: bool) -> None:
        """As `check_nodes`, for actors that each fit on some node as far as one resource goes."""
        trainers, samplers = self.counts(trains=trains)
        fit, beside = _most_placed(nodes, self.trainer, trainers, self.sampler, samplers)
        if (fit, beside) == (trainers, samplers):
            return
        role, placed, count = ("trainers", fit, trainers)
        if fit == trainers:
            role, placed, count = ("samplers", beside, samplers)
        raise SpecError(
            [
                f"spec.compute.{role}: {placed} of {count} {role} fit on the machines of the Ray "
                f"cluster ({self.machines(nodes)}); each actor must be on one machine, and there "
                f"are {self.actors(trainers, samplers)}; lower what they reserve, or their count"
            ]
        )

    def actors(self, trainers: int, samplers: int) -> str:
        """So many actors, and what they reserve, in words."""
        counts = (("trainers", trainers, self.trainer), ("samplers", samplers, self.sampler))
        return " and ".join(
            f"{count} {role} ({_amounts(needs, needs)} each)"
            for role, count, place in counts
            if count and (needs := place.needs())
        )

    def machines(self, nodes: Sequence[Mapping[str, float]]) -> str:
        """Machines with the resources `nodes`, in words: what they have of those that actors
        reserve. Those without CPUs and GPUs are left out."""
        names = self.trainer.needs() | self.sampler.needs()
        kinds = Counter(
            _amounts(node, names) for node in nodes if node.get("CPU") or node.get("GPU")
        )
        return "; ".join(f"{count} with {kind}" for kind, count in kinds.items()) or "none"

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


def _amounts(resources: Mapping[str, float], names: Iterable[str]) -> str:
    """The resources `names` in words."""
    found = {name: resources.get(name, 0.0) for name in names}
    return ", ".join(
        f"{amount / 2**30:.1f} GiB of memory" if name == "memory" else f"{amount:g} {name}s"
        for name, amount in found.items()
    )


def _most_placed(
    nodes: Sequence[Mapping[str, float]],
    trainer: Reservation,
    trainers: int,
    sampler: Reservation,
    samplers: int,
) -> tuple[int, int]:
    """How many trainers can be placed on the nodes, and how many samplers beside so many trainers:
    the most of all ways to place them."""
    most = {0: 0}  # the most samplers on the nodes so far, by the number of trainers there
    for node in nodes:
        more: dict[int, int] = {}
        for own in range(_room(node, trainer, trainers) + 1):
            used = trainer.needs()
            left = {name: has - own * used.get(name, 0.0) for name, has in node.items()}
            beside = _room(left, sampler, samplers)
            for placed, others in most.items():
                both = min(placed + own, trainers)
                more[both] = max(more.get(both, 0), min(others + beside, samplers))
        most = more
    return max(most), most[max(most)]


def _room(left: Mapping[str, float], place: Reservation, most: int) -> int:
    """How many of `most` actors have room in what is left of a node."""
    rooms = (
        int((left.get(n, 0.0) + RAYS_UNIT / 2) / amount) for n, amount in place.needs().items()
    )
    return max(0, min([most, *rooms]))


def _node(cpu: str, gpus: int, group: str) -> Reservation:
    """A place on a node of the run's own cluster, whose pod limits the memory."""
    return Reservation(cpus=float(whole_cpus(cpu)), gpus=gpus, memory=0, group=group)
