"""Why a run does not fit on its devices, or does not use them, with the field to change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec, Samplers, Trainers
from agentrl_components.spec.rules.rule import Mistake
from agentrl_pipelines.sizing.devices import CPU, Device, in_gib
from agentrl_pipelines.sizing.layout import Layout
from agentrl_pipelines.sizing.model_size import model_size
from agentrl_pipelines.sizing.sampler_memory import SamplerMemory
from agentrl_pipelines.sizing.trainer_memory import TrainerMemory, trainer_memory

RECOMPUTE = " and update.gradientCheckpointing to true"


def problems(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    placed: Layout,
    trainer: TrainerMemory,
    engine: SamplerMemory,
) -> Iterator[Mistake]:
    """Why the run cannot work, with the field to change."""
    if undivided := shape.undivided(placed.tensor_parallel):
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"{placed.tensor_parallel} does not divide the model's {undivided}",
            fix=f"use one of {_listed(shape.divisors)}",
        )
    if shape.bounded and shape.extrapolates(spec.model.context):
        yield Mistake(
            field="spec.model.context",
            reason=f"is {spec.model.context:,}, and the model has {shape.positions:,} positions",
            fix=f"set it to {shape.positions} or less",
        )
    engine_bytes = engine.least(spec.model.context)
    if trainer.total > placed.room(device.memory, engine_bytes):
        yield _trainer_mistake(spec, shape, device, placed, trainer, engine_bytes)
    elif placed.sleeps and engine.total + trainer.resident > device.memory:
        if placed.turns:
            yield _share_mistake(device, placed, trainer, engine.with_cache(0))
        else:
            taken = f"{_kept(device, trainer)}, and vLLM takes {in_gib(engine.total)}"
            yield _sharded_mistake(spec, spec, shape, device, placed, taken, engine_bytes)
    if not engine.grows and engine.cache <= 0:
        yield Mistake(
            field="spec.compute.samplers.tensorParallel",
            reason=f"an engine needs {in_gib(engine.weights + engine.workspace)} per device, and "
            f"its share of a {device.name} is {in_gib(int(device.memory * placed.memory_share))}",
            fix=f"{_more_devices(placed)}, or use a smaller model",
        )
    elif not shape.partly_cached:
        yield from _cache_mistakes(spec, device, placed, trainer, engine)


def cache_warnings(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    placed: Layout,
    trainer: TrainerMemory,
    engine: SamplerMemory,
) -> Iterator[Mistake]:
    """A cache that is too small for a model of which some layers cache less than is counted."""
    if shape.partly_cached and (engine.grows or engine.cache > 0):
        for one in _cache_mistakes(spec, device, placed, trainer, engine):
            but = "but some layers of this model cache less than the whole context that is counted"
            yield replace(one, reason=f"{one.reason}, {but}", fix=f"{one.fix}, if it does not fit")


def context_warnings(spec: RunSpec, shape: Architecture) -> Iterator[Mistake]:
    """Episodes that are longer than what the model was made for, where it can compute them."""
    if not shape.bounded and shape.extrapolates(spec.model.context):
        yield Mistake(
            field="spec.model.context",
            reason=f"is {spec.model.context:,}, and config.json states "
            f"{shape.positions:,} positions; replies beyond them may be poor",
            fix=f"set it to {shape.positions} or less",
        )


def device_warnings(spec: RunSpec, device: Device) -> Iterator[Mistake]:
    """Trainers and samplers that compute on CPUs, by the manifest, in a plan for GPUs."""
    compute = spec.compute
    if device.name == CPU:
        return
    plan = f"but this plan is one for GPUs of the kind {device.name}"
    otherwise = f"or plan with --device {CPU}"
    if compute.ray is None:
        if compute.device == "cpu":
            yield Mistake(
                field="spec.compute.device",
                reason=f"is cpu, {plan}",
                fix=f"set it to auto, {otherwise}",
            )
        return
    trainers, samplers = compute.trainers or Trainers(), compute.samplers or Samplers()
    for name, gpus, needed in (
        ("trainers", trainers.gpus, 1),
        ("samplers", samplers.gpus, samplers.tensor_parallel),
    ):
        if not gpus:
            yield Mistake(
                field=f"spec.compute.{name}.gpus",
                reason=f"is 0, so that {name} compute on CPUs, {plan}",
                fix=f"set it to {needed}, {otherwise}",
            )


def _share_mistake(device: Device, placed: Layout, trainer: TrainerMemory, engine: int) -> Mistake:
    """vLLM takes the memory of what a trainer on the same GPU keeps while vLLM samples. `engine`:
    bytes of an engine without a cache."""
    share = math.floor(100 * (device.memory - trainer.resident) / device.memory) / 100
    kept = _kept(device, trainer)
    if share * device.memory <= engine:
        return Mistake(
            field="spec.compute.trainers.count",
            reason=f"is {placed.ranks}; {kept}, and an engine needs {in_gib(engine)}",
            fix="set it and samplers.count higher, or compute.shareGpus to false",
        )
    return Mistake(
        field="spec.compute.samplers.memoryShare",
        reason=f"is {placed.memory_share:g}, but {kept}",
        fix=f"set it to {share:g} or less",
    )


def _kept(device: Device, trainer: TrainerMemory) -> str:
    """What a trainer keeps beside vLLM, in words."""
    return f"a trainer takes {in_gib(trainer.resident)} of a {device.name} while vLLM samples"


def _more_devices(placed: Layout) -> str:
    """What gives an engine more memory, as a fix."""
    more = "divide each engine over more devices"
    return f"set compute.shareGpus to false and {more}" if placed.turns else more


def _cache_mistakes(
    spec: RunSpec, device: Device, placed: Layout, trainer: TrainerMemory, engine: SamplerMemory
) -> Iterator[Mistake]:
    """vLLM's cache has no room for an episode; the torch engine has none for those in flight."""
    if engine.grows:
        if trainer.total <= placed.room(device.memory, engine.least(spec.model.context)):
            yield from _growing_cache_mistakes(spec, device, placed, trainer, engine)
    elif engine.episodes(spec.model.context) < 1:
        yield Mistake(
            field="spec.model.context",
            reason=f"the keys and values of {spec.model.context:,} tokens need "
            f"{in_gib(engine.token * spec.model.context)}, and the engine has "
            f"{in_gib(engine.cache)}",
            fix=f"set it to {engine.cache // engine.token:,} or less, or {_more_devices(placed)}",
        )


def _growing_cache_mistakes(
    spec: RunSpec, device: Device, placed: Layout, trainer: TrainerMemory, engine: SamplerMemory
) -> Iterator[Mistake]:
    """The torch engine has no room for the keys and values of its episodes in flight."""
    spare, context = placed.spare(device.memory, trainer.total), spec.model.context
    if engine.total <= spare:
        return
    if engine.least(context) > spare:
        yield Mistake(
            field="spec.model.context",
            reason=f"an engine needs {in_gib(engine.least(context))} for one episode, and "
            f"{in_gib(spare)} is left for it",
            fix="lower it, or use a smaller model",
        )
        return
    held = (spare - engine.with_cache(0)) // (engine.token * context)
    yield Mistake(
        field="spec.rollout.concurrency",
        reason="the keys and values of the episodes in flight in an engine need "
        f"{in_gib(engine.cache)}, and {in_gib(spare - engine.with_cache(0))} is left for them",
        fix=f"set it to {held:,} or less",
    )


def _trainer_mistake(
    spec: RunSpec,
    shape: Architecture,
    device: Device,
    placed: Layout,
    trainer: TrainerMemory,
    engine: int,
) -> Mistake:
    """The trainer does not fit beside engines of `engine` bytes: the change that makes it fit, the
    smallest change first."""
    room = placed.room(device.memory, engine)
    needed = (
        f"a trainer needs {in_gib(trainer.total)} per device, and {_owner(placed, device)} has "
        f"{in_gib(max(room, 0))}"
    )
    recomputed = spec.model_copy(
        update={"update": spec.update.model_copy(update={"gradient_checkpointing": True})}
    )
    size = model_size(shape, spec.model.lora)
    if trainer_memory(recomputed, shape, size, placed).total <= room:
        return Mistake(
            field="spec.update.gradientCheckpointing",
            reason=f"is false, and {needed}, {in_gib(trainer.activations)} of it activations",
            fix="set it to true",
        )
    fewer = placed.spare_engines(device.memory, trainer.total, engine)
    if fewer >= 1:
        return Mistake(
            field="spec.compute.samplers.count" if spec.compute.ray else "spec.compute.workers",
            reason=f"the {placed.engines} engines need {in_gib(engine)} each, and {needed}",
            fix=f"set it to {fewer} or less",
        )
    return _sharded_mistake(spec, recomputed, shape, device, placed, needed, engine)


def _sharded_mistake(
    spec: RunSpec,
    changed: RunSpec,
    shape: Architecture,
    device: Device,
    placed: Layout,
    needed: str,
    engine: int,
) -> Mistake:
    """More trainers, of which each holds a smaller part of the model, with the spec `changed`; or a
    smaller update."""
    size = model_size(shape, spec.model.lora)
    for ranks in (2, 4, 8, 16, 32, 64, 128, 256):
        sharded = replace(
            placed,
            ranks=ranks,
            sharded=True,
            shared_device=placed.turns,
            sleeps=placed.turns,
            lanes=1,
        )
        enough = sharded.room(device.memory, engine)
        if ranks > placed.ranks and (trainer_memory(changed, shape, size, sharded).total <= enough):
            recomputes = changed.update.gradient_checkpointing
            also = RECOMPUTE if recomputes and not spec.update.gradient_checkpointing else ""
            on_ray = "" if spec.compute.ray else " and compute.ray to embedded"
            on_ray += " and samplers.count to as many" if placed.turns else ""
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


def _owner(placed: Layout, device: Device) -> str:
    """What has the memory for a trainer, in words."""
    if placed.one_machine:
        return "its share of this machine's memory beside the engines"
    if placed.sleeps:
        return f"a {device.name} on which vLLM sleeps"
    if placed.shared_device:
        return f"the share of a {device.name} that the engine leaves"
    return f"a {device.name}"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
