"""Low-rank adapters (LoRA, arXiv 2106.09685), using peft."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from agentrl_components.errors import ModelError
from agentrl_components.schedule.seeds import derive
from agentrl_components.spec import Lora

if TYPE_CHECKING:
    from agentrl_components.model.causal_model import CausalModel

NAME = "default"
"""Name of the adapter in peft's modules."""

HEAD = "lm_head"
IS_HEAD = "its weight is the language-model head"
"""Logits are computed from the weight itself, so an adapter would be left out there."""


def add(decoder: CausalModel, lora: Lora, seed: int) -> None:
    """Add adapters to the layers in `lora.targets` and freeze all other parameters.

    Adapters are initialised from `seed` such that their product is zero.

    Raises:
        ModelError: no layer has one of the target names, or a target cannot have an adapter.
    """
    _check_targets(decoder, lora.targets)
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        fan_in_fan_out=bool(decoder.transposed),  # an architecture has one kind of linear layers
    )
    training = decoder.training
    with torch.random.fork_rng(devices=[]):  # peft uses the global generator
        torch.manual_seed(derive(seed, "adapters"))
        try:
            inject_adapter_in_model(config, decoder, NAME)
        except ValueError as error:
            raise ModelError(f"spec.model.lora.targets: {error}") from error
    decoder.train(training)


def set_dropout(decoder: CausalModel, on: bool) -> None:
    """Turn dropout of the adapters' inputs on or off. That of the model itself stays off: it would
    change the output of the frozen weights."""
    from peft.tuners.lora import LoraLayer

    for layer in decoder.modules():
        if isinstance(layer, LoraLayer):
            layer.lora_dropout.train(on)


def product(a: Tensor, b: Tensor, scaling: float, *, transposed: bool) -> Tensor:
    """What an adapter adds to the weight of its layer. `transposed`: as `CausalModel.transposed`
    says of the weight."""
    change = (b @ a) * scaling
    return change.T if transposed else change


def merged_state_dict(decoder: CausalModel) -> dict[str, Tensor]:
    """The state dict with every adapter's product added to the weight of its layer.

    Merged weights are float32: in bfloat16 most of a small change would be rounded away."""
    modules = dict(decoder.named_modules())
    out = {}
    for name, tensor in decoder.state_dict().items():
        if ".lora_" in name or name in decoder.tied_names:
            continue
        owner = name.removesuffix(".base_layer.weight")
        if owner != name:
            tensor = tensor.float() + modules[owner].get_delta_weight(NAME).float()
        out[name.replace(".base_layer.", ".")] = tensor
    return out


def _check_targets(decoder: CausalModel, targets: Sequence[str]) -> None:
    """Raise `ModelError` if a layer that `targets` names cannot have an adapter."""
    if decoder.shape.tied and HEAD in targets:  # our decoder has no such layer then
        raise _refused(HEAD, IS_HEAD)
    owners = Counter(id(one) for part in decoder.modules() for one in part._parameters.values())
    for name, layer in decoder.named_modules():
        target = next((one for one in targets if f".{name}".endswith(f".{one}")), None)
        if target is None:
            continue
        if not isinstance(layer, nn.Linear) and f"{name}.weight" not in decoder.transposed:
            reason = "it is not a linear layer"
        elif not name.startswith(f"{decoder.body_name}."):
            reason = IS_HEAD
        elif owners[id(layer.weight)] > 1:
            reason = "another layer has the same weight"
        else:
            continue
        raise _refused(target, reason)


def _refused(target: str, reason: str) -> ModelError:
    return ModelError(
        f"spec.model.lora.targets: {target} cannot have an adapter, since {reason}; leave it out"
    )
