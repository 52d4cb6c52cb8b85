"""Parameters of a model, counted from its architecture without loading it."""

from __future__ import annotations

from dataclasses import dataclass

from agentrl_components.model.architecture import Architecture, Counted
from agentrl_components.spec import Lora


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """Numbers of parameters."""

    total: int
    trainable: int
    """All of them, or those of the adapters with LoRA."""
    embedding: int
    """Parameters of the token embedding, which no matrix multiplication reads unless it is tied."""
    block: int
    """Parameters of one transformer block."""
    largest: int
    """Parameters of the largest weight."""
    root: int
    """Parameters outside of the blocks: embedding, head if it is not tied, and last norm."""


def model_size(shape: Architecture, lora: Lora | None = None) -> ModelSize:
    """The parameters of a decoder of this architecture."""
    if shape.counted is not None:
        return _of_counted(shape.counted, shape.layers, lora)
    projections = _projections(shape)
    widths = sum(inputs * outputs for inputs, outputs in projections.values())
    biases = 0
    if shape.qkv_bias:
        biases += sum(projections[name][1] for name in ("q_proj", "k_proj", "v_proj"))
    if shape.out_bias:
        biases += shape.hidden
    if shape.mlp_bias:
        biases += 2 * shape.intermediate + shape.hidden
    norms = 2 * shape.hidden + (2 * shape.head_width if shape.normed else 0)
    block = widths + biases + norms
    embedding = shape.vocabulary * shape.hidden
    heads = 1 if shape.tied else 2
    total = heads * embedding + shape.layers * block + shape.hidden
    adapters = 0
    if lora is not None:
        sides = [sum(projections[name]) for name in lora.targets if name in projections]
        adapters = shape.layers * lora.rank * sum(sides)
    return ModelSize(
        total=total + adapters,
        trainable=total if lora is None else adapters,
        embedding=embedding,
        block=block,
        largest=max(embedding, *(inputs * outputs for inputs, outputs in projections.values())),
        root=heads * embedding + shape.hidden,
    )


def _of_counted(counted: Counted, layers: int, lora: Lora | None) -> ModelSize:
    adapters = 0
    if lora is not None:
        sides = [one + other for name, one, other in counted.linear if name in lora.targets]
        adapters = lora.rank * sum(sides)
    return ModelSize(
        total=counted.total + adapters,
        trainable=counted.total if lora is None else adapters,
        embedding=counted.embedding,
        block=counted.block,
        largest=counted.largest,
        root=counted.total - layers * counted.block,
    )


def _projections(shape: Architecture) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of the linear layers of a block, by name."""
    queries, keys = shape.heads * shape.head_width, shape.kv_heads * shape.head_width
    return {
        "q_proj": (shape.hidden, queries),
        "k_proj": (shape.hidden, keys),
        "v_proj": (shape.hidden, keys),
        "o_proj": (queries, shape.hidden),
        "gate_proj": (shape.hidden, shape.intermediate),
        "up_proj": (shape.hidden, shape.intermediate),
        "down_proj": (shape.intermediate, shape.hidden),
    }
