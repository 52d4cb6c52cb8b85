"""Load and export the weights of a model folder in transformers' layout.

Checkpoints have this layout too, so a checkpoint can be the `file://` source of another run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.lora import merged_state_dict
from agentrl_components.model.shape import read_native
from agentrl_components.spec.fields.model import Implementation

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def chosen_implementation(
    folder: Path, implementation: Implementation
) -> Literal["native", "transformers"]:
    """Which implementation computes the model of `folder`. Raises `ModelError` if config.json
    cannot be read, and `ArchitectureError` if `native` does not have the architecture."""
    if implementation == "transformers":
        return implementation
    try:
        read_native(folder)
    except ArchitectureError:
        if implementation == "native":
            raise
        return "transformers"
    return "native"


def open_decoder(
    folder: Path, dtype: torch.dtype, device: torch.device, implementation: Implementation = "auto"
) -> CausalModel:
    """The model of `folder` with its weights, in evaluation mode.

    Raises:
        ArchitectureError: it is not a causal language model, or not one of this implementation.
        ModelError: a file is missing or damaged, or the weights do not fit config.json.
    """
    if chosen_implementation(folder, implementation) == "transformers":
        from agentrl_components.model.foreign.open import open_foreign

        return open_foreign(folder, dtype, device)
    with torch.device("meta"):
        decoder = Decoder(read_native(folder))
    weights = read_weights(folder)
    try:
        missing, unknown = decoder.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:  # a shape differs from config.json
        raise ModelError(f"{folder}: weights do not fit config.json: {error}") from error
    unknown = [name for name in unknown if not decoder.is_unread(name)]
    if missing or unknown:
        raise ModelError(
            f"{folder}: weights do not fit config.json; "
            f"missing {missing[:3]}, unknown {unknown[:3]}"
        )
    decoder.reset_frequencies(device)
    # Dropout is switched on for training passes only; sampling and scoring never drop.
    decoder = decoder.to(dtype=dtype, device=device).eval()
    decoder.reset_frequencies(device)
    return decoder


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder's safetensors files, by name.

    Raises:
        ModelError: a file cannot be read.
    """
    weights: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            weights.update(load_file(path))
        except (OSError, SafetensorError) as error:
            raise ModelError(f"{path}: cannot be read: {error}") from error
    return weights


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the folder's model: those that its index names, or the only one. A
    folder may have others beside them, such as the `consolidated.safetensors` of Mistral's models.

    Raises:
        ModelError: the index cannot be read.
    """
    index = folder / INDEX
    if not index.is_file():
        return [folder / WEIGHTS]
    try:
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        return [folder / name for name in names]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index}: is not an index of safetensors files: {error!r}") from error


def unread_patterns(folder: Path) -> tuple[str, ...]:
    """Regular expressions of names that the folder's files may hold and no model reads
    (`CausalModel.unread`).

    Raises:
        ModelError: config.json cannot be read.
        ArchitectureError: it is not of a causal language model that transformers knows.
    """
    if chosen_implementation(folder, "auto") == "native":
        return Decoder.unread
    from agentrl_components.model.foreign.open import unread_by_transformers

    return CausalModel.unread + unread_by_transformers(folder)


def has_tied_head(folder: Path) -> bool:
    """Whether the output head is the embedding, as config.json says, or else as transformers has it
    for the model type.

    Raises:
        ModelError: config.json cannot be read.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
        tied, family = config.get("tie_word_embeddings"), config.get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    if tied is None:
        from transformers import CONFIG_MAPPING

        tied = family in CONFIG_MAPPING and CONFIG_MAPPING[family]().tie_word_embeddings
    return bool(tied)


def export_weights(decoder: CausalModel) -> dict[str, Tensor]:
    """The state dict that transformers loads, on the CPU, with adapters merged."""
    return {name: tensor.cpu().contiguous() for name, tensor in device_weights(decoder).items()}


def device_weights(decoder: CausalModel) -> dict[str, Tensor]:
    """As `export_weights`, on the model's device. What no adapter changes is not copied."""
    weights = decoder.saved(merged_state_dict(decoder))
    return {name: tensor.detach() for name, tensor in weights.items()}
