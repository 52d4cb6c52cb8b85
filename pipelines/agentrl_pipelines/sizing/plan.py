"""What a run needs, and whether it fits, from its manifest alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec
from agentrl_components.spec.rules.rule import Mistake
from agentrl_pipelines.sizing.devices import GIB, Device
from agentrl_pipelines.sizing.duration import Duration, Estimate, Throughput
from agentrl_pipelines.sizing.layout import Layout, layout
from agentrl_pipelines.sizing.model_size import ModelSize, model_size
from agentrl_pipelines.sizing.sampler_memory import SamplerMemory, sampler_memory
from agentrl_pipelines.sizing.trainer_memory import WIDTHS, TrainerMemory, trainer_memory
from agentrl_pipelines.sizing.workload import PhaseLoad, phase_loads

RECOMPUTE = " and update.gradientCheckpointing to true"


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePlan:
    """One phase and the duration of one of its iterations."""

    load: PhaseLoad
    duration: Duration | None
    """None: not estimated."""
    at_once: int
    """Episodes in flight at the same time, over all engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run needs."""

    size: ModelSize
    layout: Layout
    device: Device
    trainer: TrainerMemory
    engine: SamplerMemory
    phases: tuple[PhasePlan, ...]
    checkpoint: int
    """Bytes of a checkpoint."""
    kept: int
    """Maximum number of checkpoints in the store at the same time."""
    problems: tuple[Mistake, ...]
    """Why the run cannot work on these devices. Empty: it fits."""

    @property
    def hours(self) -> float | None:
        """Duration of all iterations, in hours. None: not estimated."""
        durations = [phase.duration for phase in self.phases]
        if None in durations:
            return None
        seconds = (p.load.iterations * p.duration.total for p in self.phases if p.duration)
        return sum(seconds) / 3600

    @property
    def sessions(self) -> int:
        """Environment sessions that are open at the same time."""
        return max(phase.at_once for phase in self.phases)


def make_plan(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    assumed: Throughput | None = None,
    tokens_per_turn: int | None = None,
) -> Plan:
    """The plan of a run on devices of one kind. `tokens_per_turn` is as in `phase_loads`."""
    placed = layout(spec)
    size = model_size(shape, spec.model.lora)
    trainer = trainer_memory(spec, shape, size, placed)
    engine = sampler_memory(spec, shape, size, placed, device)
    estimate = Estimate(
        spec=spec,
        shape=shape,
        size=size,
        layout=placed,
        device=device,
        engine=engine,
        assumed=assumed or Throughput(),
    )
    loads = phase_loads(spec, tokens_per_turn)
    phases = [
        PhasePlan(load=load, duration=estimate.of(load), at_once=estimate.at_once(load))
        for load in loads
    ]
    return Plan(
        size=size,
        layout=placed,
        device=device,
        trainer=trainer,
        engine=engine,
        phases=tuple(phases),
        checkpoint=checkpoint_bytes(spec, size),
        # The best one and the last one of each phase are kept besides the recent ones.
        kept=spec.update.keep_last + 1 + len(loads),
        problems=tuple(problems(spec, shape, device, placed, trainer, engine)),
    )


def checkpoint_bytes(spec: RunSpec, size: ModelSize) -> int:
    """Bytes of a checkpoint: the model in its own type, master weights and two moments in float32.
    With LoRA the merged model is float32, and the rest belongs to the adapters. The critic's state
    is as large as a model's."""
    model = size.total if spec.model.lora is None else size.total - size.trainable
    width = 4 if spec.model.lora is not None else WIDTHS[spec.model.dtype]
    critic = 12 * size.total if spec.algorithm.traits.needs_critic else 0
    return model * width + 12 * size.trainable + critic


def problems(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    placed: Layout,
    trainer: TrainerMemory,
    engine: SamplerMemory,
) -> Iterator[Mistake]:
    """Why the run cannot work, with the field to change."""
    if shape.heads % placed.tensor_parallel:
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"{placed.tensor_parallel} does not divide the model's {shape.heads} heads",
            fix=f"use one of {_listed(_divisors(shape.heads))}",
        )
    if placed.shared_device:
        room = int(device.memory * (1 - placed.memory_share))
        owner = f"the share of a {device.name} that the engine leaves"
    else:
        room, owner = device.memory, f"a {device.name}"
    if trainer.total > room:
        yield _trainer_mistake(spec, shape, placed, trainer, room, owner)
    if engine.cache <= 0:
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"an engine needs {_gib(engine.weights + engine.workspace)} per device, and its "
            f"share of a {device.name} is {_gib(int(device.memory * placed.memory_share))}",
            fix="divide each engine over more devices, or use a smaller model",
        )
    elif engine.episodes(spec.model.context) < 1:
        yield Mistake(
            field="spec.model.context",
            reason=f"the keys and values of {spec.model.context:,} tokens need "
            f"{_gib(engine.token * spec.model.context)}, and the engine has {_gib(engine.cache)}",
            fix=f"set it to {engine.cache // engine.token:,} or less, or divide the engine over "
            "more devices",
        )


def _trainer_mistake(
    spec: RunSpec,
    shape: Architecture,
    placed: Layout,
    trainer: TrainerMemory,
    room: int,
    owner: str,
) -> Mistake:
    """The trainer does not fit: the change that makes it fit, the smallest change first."""
    needed = f"a trainer needs {_gib(trainer.total)} per device, and {owner} has {_gib(room)}"
    recomputed = spec.model_copy(
        update={"update": spec.update.model_copy(update={"gradient_checkpointing": True})}
    )
    size = model_size(shape, spec.model.lora)
    if trainer_memory(recomputed, shape, size, placed).total <= room:
        return Mistake(
            field="spec.update.gradientCheckpointing",
            reason=f"is false, and {needed}, {_gib(trainer.activations)} of it activations",
            fix="set it to true",
        )
    for ranks in (2, 4, 8, 16, 32, 64, 128, 256):
        sharded = Layout(
            ranks=ranks,
            sharded=True,
            engines=placed.engines,
            tensor_parallel=placed.tensor_parallel,
            memory_share=placed.memory_share,
            shared_device=placed.shared_device,
        )
        if ranks > placed.ranks and (
            trainer_memory(recomputed, shape, size, sharded).total <= room
        ):
            also = "" if spec.update.gradient_checkpointing else RECOMPUTE
            on_ray = "" if spec.compute.ray else " and compute.ray to embedded"
            return Mistake(
                field="spec.compute.trainers.count",
                reason=needed,
                fix=f"set it to {ranks}{on_ray}{also}, or train adapters (model.lora)",
            )
    return Mistake(
        field="spec.update.microBatchTokens",
        reason=needed,
        fix="lower it and model.context, or train adapters (model.lora)",
    )


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _gib(count: int) -> str:
    return f"{count / GIB:,.1f} GiB"
