"""Load new weights into a running vLLM from memory, on CPU and on one GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from agentrl_components.errors import EngineError

TIED_HEAD = "lm_head.weight"
"""Not in the files of a model whose head is tied to the embedding, but in its state dict."""
LOAD_ERRORS = (ValueError, KeyError, AssertionError, RuntimeError)
"""Exceptions that vLLM raises if weights do not fit its model."""


def shapes_in(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every weight in the folder's safetensors files, by name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as shard:
            names = shard.keys()
            shapes |= {name: tuple(shard.get_slice(name).get_shape()) for name in names}
    return shapes


def check(
    shapes: Mapping[str, tuple[int, ...]], weights: Mapping[str, torch.Tensor], version: int
) -> None:
    """Check that `weights` fit `shapes`. vLLM itself would fail halfway, or ignore missing weights.

    Raises:
        EngineError: names every weight that is missing, unknown or has another shape.
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
    """Copy `weights` into the engine's model and reset its prefix cache. Call it between two steps
    and without pending replies."""
    # `model.load_weights` alone fails on CPU, where layers keep only a packed copy.
    engine.collective_rpc("reload_weights", kwargs={"weights_iterator": iter(weights.items())})
    engine.apply_model(_repack_head)
    if not engine.reset_prefix_cache():
        raise RuntimeError("the prefix cache is in use and still has keys of the old version")


def _repack_head(model: torch.nn.Module) -> None:
    """Repack a head that is tied to the embedding. `reload_weights` skips it, so on CPU it would
    keep the packed copy of the old weights."""
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)
