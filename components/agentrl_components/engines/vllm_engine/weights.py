"""New weights for a running vLLM, in memory, on CPU and on one GPU alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from agentrl_components.errors import EngineError

TIED_HEAD = "lm_head.weight"
"""Not on disk when tied to the embedding, yet in a model's state."""
REFUSALS = (ValueError, KeyError, AssertionError, RuntimeError)
"""What vLLM raises when weights do not fit its model."""


def shapes_in(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every weight in the folder, by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as shard:
            names = shard.keys()
            shapes |= {name: tuple(shard.get_slice(name).get_shape()) for name in names}
    return shapes


def check(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, torch.Tensor], version: int
) -> None:
    """Refuse weights that vLLM would choke on halfway, or take in part without a word.

    Raises `EngineError`, which names every weight that is missing, unknown or of another shape.
    """
    mistakes = [f"{name} is missing" for name in sorted(shapes.keys() - weights.keys())]
    for name, tensor in weights.items():
        if name in shapes and tuple(tensor.shape) != shapes[name]:
            mistakes.append(f"{name} has shape {tuple(tensor.shape)}, not {shapes[name]}")
        if name not in shapes and name != TIED_HEAD:
            mistakes.append(f"{name} is unknown")
    if mistakes:
        raise EngineError(f"version {version} does not fit the model: {'; '.join(mistakes)}")


def reload(weights: Mapping[str, torch.Tensor], engine: Any) -> None:
    """Copy `weights` into the engine's model and forget keys and values of the old ones. Between
    two steps, with no reply under way."""
    # `model.load_weights` alone fails on CPU, where layers keep their weights packed only.
    engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
    engine.apply_model(_repack_head)
    if not engine.reset_prefix_cache():
        raise RuntimeError("the prefix cache is in use and still holds the old version's keys")


def _repack_head(model: torch.nn.Module) -> None:
    """A head tied to the embedding is no layer of its own to `reload_weights`: on CPU it would go
    on with the packed copy of the old weights."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)
