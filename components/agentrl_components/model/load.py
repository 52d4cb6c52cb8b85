"""From a manifest's `model` to a folder in transformers' layout, and from there to a decoder.

A checkpoint of ours is such a folder too, so a run's result is the next run's `file://` source.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from agentrl_components.errors import ModelError
from agentrl_components.model import architecture
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.lora import merged

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def open_decoder(folder: Path, dtype: torch.dtype, device: torch.device) -> Decoder:
    """The model with its weights. Raises `ModelError` naming what is missing or damaged."""
    with torch.device("meta"):
        decoder = Decoder(architecture.read(folder))
    weights = read_weights(folder)
    try:
        missing, unknown = decoder.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:  # a tensor of another shape than config.json says
        raise ModelError(f"{folder}: weights do not fit config.json: {error}") from error
    if decoder.shape.tied:
        unknown = [name for name in unknown if name != "lm_head.weight"]
    if missing or unknown:
        raise ModelError(
            f"{folder}: weights do not fit config.json; "
            f"missing {missing[:3]}, unknown {unknown[:3]}"
        )
    shape = decoder.shape
    frequencies_D = torch.tensor(shape.rope.frequencies(shape.head_width), device=device)
    decoder.register_buffer("frequencies", frequencies_D, persistent=False)
    # Dropout is for training passes, which say so; sampling and scoring never drop.
    decoder = decoder.to(dtype=dtype, device=device).eval()
    # Not cast: a position times a rounded frequency would be off by whole radians.
    decoder.register_buffer("frequencies", frequencies_D, persistent=False)
    return decoder


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a folder's safetensors files."""
    index = folder / INDEX
    names = [WEIGHTS]
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{index}: is no index of safetensors files: {error!r}") from error
    weights: dict[str, Tensor] = {}
    for name in names:
        try:
            weights.update(load_file(folder / name))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{folder / name}: cannot be read: {error}") from error
    return weights


def exported(decoder: Decoder) -> dict[str, Tensor]:
    """The state dict that transformers loads: adapters merged, float32 or bfloat16 as held."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in merged(decoder).items()}
