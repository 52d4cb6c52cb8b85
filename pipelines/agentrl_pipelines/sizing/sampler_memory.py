"""Memory of an inference engine: weights, and keys and values of the tokens in its cache."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture
from agentrl_components.spec import RunSpec
from agentrl_pipelines.sizing.devices import Device
from agentrl_pipelines.sizing.layout import Layout
from agentrl_pipelines.sizing.model_size import ModelSize
from agentrl_pipelines.sizing.trainer_memory import WIDTHS

WORKSPACE = 2 << 30
"""Bytes for vLLM's activations, CUDA graphs and the CUDA context on a device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerMemory:
    """Bytes on each device of an engine, and what its cache holds."""

    weights: int
    workspace: int
    cache: int
    """What the engine's share of the memory leaves for keys and values; negative if the weights
    alone exceed the share."""
    token: int
    """Bytes of the keys and values of a token on each device."""

    @property
    def total(self) -> int:
        """Bytes on each device: the engine's whole share, or what it needs at least."""
        return self.weights + self.workspace + max(self.cache, 0)

    def episodes(self, context: int) -> int:
        """Episodes of `context` tokens that the cache holds at the same time."""
        return max(self.cache, 0) // (self.token * context)


def sampler_memory(
    spec: RunSpec, shape: Architecture, size: ModelSize, layout: Layout, device: Device
) -> SamplerMemory:
    """Memory on each device of an engine."""
    # With LoRA the engine plays merged weights in float32 (`workers.player`), but vLLM on Ray keeps
    # adapters beside the model's weights (`ray_workers.sampler`).
    beside = spec.compute.ray is not None and spec.rollout.engine == "vllm"
    merges = spec.model.lora is not None and not beside
    width = 4 if merges else WIDTHS[spec.model.dtype]
    parameters = size.total - size.trainable if merges else size.total
    weights = -(-parameters * width // layout.tensor_parallel)
    shared_heads = max(1, shape.kv_heads // layout.tensor_parallel)
    share = int(device.memory * layout.memory_share)
    return SamplerMemory(
        weights=weights,
        workspace=WORKSPACE,
        cache=share - weights - WORKSPACE,
        token=2 * shape.layers * shared_heads * shape.head_width * width,
    )
