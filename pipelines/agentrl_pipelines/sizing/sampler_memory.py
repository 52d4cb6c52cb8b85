"""Memory of an inference engine: weights, and keys and values of the tokens in its cache.

vLLM's cache has a fixed size: episodes for which it has no room wait. The torch engine's cache
grows with the episodes that are in flight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.sharded.passes.pass_memory import WIDTHS
from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.devices import Device
from agentrl_pipelines.sizing.layout import Layout
from agentrl_pipelines.sizing.model_size import ModelSize
from agentrl_pipelines.sizing.trainer_memory import PROCESS
from agentrl_pipelines.sizing.workload import Load

WORKSPACE = 2 << 30
"""Bytes for activations, CUDA graphs and the CUDA context on a device."""
CPU_CACHE = 256 << 20
"""Bytes of vLLM's cache on a CPU (`vllm_engine.start.CPU_CACHE_BYTES`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerMemory:
    """Bytes on each device of an engine, and what its cache holds."""

    weights: int
    """Weights that the engine has beside those of a trainer whose model it samples from, and what
    it copies for its passes."""
    read: int
    """Weights that a pass reads."""
    workspace: int
    cache: int
    """Bytes for keys and values. On a GPU what vLLM's share of the memory leaves for them: negative
    if the weights alone exceed the share."""
    token: int
    """Bytes of the keys and values of a token on each device, in layers that cache all tokens."""
    grows: bool
    """The cache is as large as its episodes need (torch engine)."""

    @property
    def total(self) -> int:
        """Bytes on each device: the engine's whole share, or what it needs at least."""
        return self.weights + self.workspace + max(self.cache, 0)

    def episodes(self, context: int) -> int:
        """Episodes of `context` tokens that the cache holds at the same time."""
        return max(self.cache, 0) // (self.token * context)

    def least(self, context: int) -> int:
        """Bytes on each device if at most one episode of `context` tokens is in flight."""
        return self.with_cache(self.token * context) if self.grows else self.total

    def with_cache(self, cache: int) -> int:
        """Bytes on each device with another size of the cache."""
        return self.weights + self.workspace + cache


def sampler_memory(
    spec: RunSpec,
    shape: Architecture,
    size: ModelSize,
    layout: Layout,
    device: Device,
    loads: Sequence[Load],
) -> SamplerMemory:
    """Memory on each device of an engine. `loads` are the phases of the run, its evaluations and
    its warm start."""
    torch = spec.rollout.engine == "torch"
    merges = _merges(spec, layout)
    width = 4 if merges else WIDTHS[spec.model.dtype]
    compiled = torch and layout.one_machine and shape.counted is None  # `slot_passes`
    token = shape.cached(layout.tensor_parallel) * (4 if compiled else width)
    parameters = size.total - size.trainable if merges else size.total
    read = -(-parameters * width // layout.tensor_parallel)
    shares = torch and layout.shared_device
    weights = _own_weights(spec, size, layout) if shares else read
    if compiled:
        read = _packed(spec, shape, size)
        weights += read
    workspace = PROCESS if layout.one_machine else WORKSPACE
    if torch:
        cache = token * _tokens_in_flight(spec, layout, loads)
    elif layout.one_machine:
        cache = CPU_CACHE
    else:
        cache = int(device.memory * layout.memory_share) - weights - workspace
    return SamplerMemory(
        weights=weights, read=read, workspace=workspace, cache=cache, token=token, grows=torch
    )


def _merges(spec: RunSpec, layout: Layout) -> bool:
    """Whether an engine has weights of its own into which adapters are merged, in float32
    (`workers.player`). vLLM on Ray keeps adapters beside the model's weights
    (`ray_workers.sampler`); a torch engine beside a trainer samples from the trainer's model."""
    if spec.model.lora is None:
        return False
    return spec.compute.ray is None if spec.rollout.engine == "vllm" else not layout.shared_device


def _packed(spec: RunSpec, shape: Architecture, size: ModelSize) -> int:
    """Bytes of the copy of the weights that compiled passes read (`torch_engine.kernels`): in
    float32, with adapters merged, without an embedding that is not the head."""
    adapters = 0 if spec.model.lora is None else size.trainable
    return 4 * (size.total - adapters - (0 if shape.tied else size.embedding))


def _own_weights(spec: RunSpec, size: ModelSize, layout: Layout) -> int:
    """Weights of a torch engine that samples from the trainer's model: none, or in worker processes
    those that the shared vectors do not have (`update.flat_parameters`)."""
    if layout.engines == 1:
        return 0
    width = WIDTHS[spec.model.dtype]
    return size.trainable * (width if width != 4 else 0) + (size.total - size.trainable) * width


def _tokens_in_flight(spec: RunSpec, layout: Layout, loads: Sequence[Load]) -> int:
    """The most tokens of the episodes that an engine plays at the same time."""
    return max(
        min(math.ceil(load.episodes / layout.engines), spec.rollout.concurrency) * load.length
        for load in loads
    )
