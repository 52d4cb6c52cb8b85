"""Low-rank adapters (LoRA, arXiv 2106.09685), by peft."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from agentrl_components.errors import ModelError
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import Lora

if TYPE_CHECKING:
    from agentrl_components.model.decoder import Decoder

NAME = "default"


def add(decoder: Decoder, lora: Lora, seed: int) -> None:
    """Put adapters beside the named layers and freeze everything else. They begin as `seed` says,
    with a product of zero. Raises `ModelError` when no layer has one of the names."""
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
    )
    training = decoder.training
    with torch.random.fork_rng(devices=[]):  # peft draws from the process's generator
        torch.manual_seed(derive(seed, "adapters"))
        try:
            inject_adapter_in_model(config, decoder, NAME)
        except ValueError as error:
            raise ModelError(f"spec.model.lora.targets: {error}") from error
    decoder.train(training)


def merged(decoder: Decoder) -> dict[str, Tensor]:
    """The decoder's state dict as if its adapters had been trained into its weights."""
    modules = dict(decoder.named_modules())
    out = {}
    for name, tensor in decoder.state_dict().items():
        if ".lora_" in name:
            continue
        owner = name.removesuffix(".base_layer.weight")
        if owner != name:
            tensor = tensor + modules[owner].get_delta_weight(NAME)
        out[name.replace(".base_layer.", ".")] = tensor
    return out
