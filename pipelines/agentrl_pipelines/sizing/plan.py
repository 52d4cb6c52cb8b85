"""What a run needs, and whether it fits, from its manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec
from agentrl_components.spec.batches import Batch, batches
from agentrl_components.spec.rules.rule import Mistake
from agentrl_pipelines.sizing.cluster_warnings import (
    embedded_warnings,
    memory_warnings,
    pod_warnings,
    server_warnings,
)
from agentrl_pipelines.sizing.devices import Device
from agentrl_pipelines.sizing.disk import checkpoint_bytes, disk_warnings, pod_disk
from agentrl_pipelines.sizing.duration import Duration, Estimate, Throughput
from agentrl_pipelines.sizing.layout import MACHINE, Layout, layout
from agentrl_pipelines.sizing.model_size import ModelSize, model_size
from agentrl_pipelines.sizing.problems import (
    cache_warnings,
    context_warnings,
    device_warnings,
    problems,
)
from agentrl_pipelines.sizing.sampler_memory import SamplerMemory, sampler_memory
from agentrl_pipelines.sizing.trainer_memory import TrainerMemory, trainer_memory
from agentrl_pipelines.sizing.workload import PhaseLoad, other_loads, phase_loads


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """One phase and the duration of one of its iterations."""

    load: PhaseLoad
    duration: Duration | None
    """None: not estimated."""
    at_once: int
    """Episodes that engines sample at the same time, over all engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run needs."""

    size: ModelSize
    layout: Layout
    device: Device
    blocks: int
    """Transformer blocks of the model."""
    trainer: TrainerMemory
    engine: SamplerMemory
    phases: tuple[PhasePlan, ...]
    busiest: Batch
    """The episodes for which the most environment sessions are open at the same time."""
    sessions: int
    """The number of these sessions."""
    checkpoint: int
    """Bytes of a checkpoint."""
    kept: int
    """Maximum number of checkpoints that are kept. Another one is in the store while it is written,
    before those that are not needed any more are deleted."""
    temporary: int | None
    """Bytes of temporary files (TMPDIR) on the machine of a run whose actors are all on it: a
    checkpoint is written there before it is stored, and fetched there. None: actors may be on other
    machines."""
    pod_disk: Mapping[str, int]
    """Bytes of temporary files of each pod of the run's own Ray cluster, by worker group."""
    problems: tuple[Mistake, ...]
    """Why the run cannot work on these devices. Empty: it fits."""
    warnings: tuple[Mistake, ...]
    """What makes the run slower on Kubernetes, its pods end, or replies worse, and what the run
    does otherwise than this plan."""

    @property
    def hours(self) -> float | None:
        """Duration of all iterations without evaluations, in hours. None: not estimated."""
        durations = [phase.duration for phase in self.phases]
        if None in durations:
            return None
        seconds = (p.load.iterations * p.duration.total for p in self.phases if p.duration)
        return sum(seconds) / 3600

    @property
    def machine(self) -> int | None:
        """Bytes that all processes of the run take on a machine without GPUs. None: it has GPUs."""
        return _machine(self.layout, self.trainer, self.engine)

    @property
    def stored(self) -> int:
        """Bytes of all checkpoints in the store at the same time, at most."""
        return self.checkpoint * (self.kept + 1)


def make_plan(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    assumed: Throughput | None = None,
    tokens_per_turn: int | None = None,
) -> Plan:
    """The plan of a run on devices of one kind. `tokens_per_turn` is as in `phase_loads`."""
    placed = layout(spec, device)
    loads = phase_loads(spec, tokens_per_turn)
    size = model_size(shape, spec.model.lora)
    trainer = trainer_memory(spec, shape, size, placed, device.memory)
    played = [*loads, *other_loads(spec, tokens_per_turn)]
    engine = sampler_memory(spec, shape, size, placed, device, played)
    estimate = Estimate(
        spec=spec,
        shape=shape,
        size=size,
        layout=placed,
        device=device,
        engine=engine,
        again=trainer.again,
        assumed=assumed or Throughput(),
    )
    phases = [
        PhasePlan(load=load, duration=estimate.of(load), at_once=estimate.at_once(load))
        for load in loads
    ]
    disk = pod_disk(spec, size)
    # Episodes for which vLLM has no room wait in it with their sessions open.
    most = placed.engines * spec.rollout.concurrency
    busiest = max(batches(spec), key=lambda one: min(one.episodes, most))
    return Plan(
        size=size,
        layout=placed,
        device=device,
        blocks=shape.layers,
        trainer=trainer,
        engine=engine,
        phases=tuple(phases),
        busiest=busiest,
        sessions=min(busiest.episodes, most),
        checkpoint=checkpoint_bytes(spec, size),
        # The best one and the last one of each phase are kept besides the recent ones.
        kept=spec.update.keep_last + 1 + len(loads),
        temporary=checkpoint_bytes(spec, size) if spec.compute.ray in (None, "embedded") else None,
        pod_disk=disk,
        problems=tuple(problems(spec, shape, device, placed, trainer, engine)),
        warnings=(
            *device_warnings(spec, device),
            *_cluster_warnings(spec, most, disk, _stage_pod(spec, placed, trainer, engine)),
            *context_warnings(spec, shape),
            *cache_warnings(spec, shape, device, placed, trainer, engine),
        ),
    )


def _cluster_warnings(
    spec: RunSpec, at_once: int, disk: Mapping[str, int], stage: int | None
) -> Iterator[Mistake]:
    """What is worse on Kubernetes than it could be. `at_once`: the most sessions at the same time;
    `disk` and `stage`: bytes of temporary files of the pods, and of memory of a stage's pod."""
    yield from server_warnings(spec, at_once)
    yield from pod_warnings(spec)
    yield from embedded_warnings(spec)
    yield from memory_warnings(spec, stage)
    yield from disk_warnings(spec, disk)


def _machine(placed: Layout, trainer: TrainerMemory, engine: SamplerMemory) -> int | None:
    if not placed.one_machine:
        return None
    return placed.ranks * trainer.total + placed.engines * engine.total + MACHINE


def _stage_pod(
    spec: RunSpec, placed: Layout, trainer: TrainerMemory, engine: SamplerMemory
) -> int | None:
    """Bytes of the largest pod of a stage. None: it has GPUs, or does not hold the actors."""
    if not placed.one_machine or spec.compute.ray not in (None, "embedded"):
        return None
    if spec.compute.ray == "embedded":
        return _machine(placed, trainer, engine)
    # Without Ray, the run itself and the tracker are in the process of the trainer.
    trainers, engines = placed.ranks * trainer.total, placed.engines * engine.total
    apart = spec.compute.placement == "disaggregated"
    return max(trainers, engines) if apart else trainers + engines
