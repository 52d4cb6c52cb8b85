"""Whole weights of a policy whose rows are divided over ranks, one after another.

Each is a collective call: all ranks have to take all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from agentrl_components.model import lora
from agentrl_components.model.causal_model import CausalModel


def gathered_weights(policy: CausalModel, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Each weight in `dtype`, named as transformers names it, with adapters merged; merged ones are
    float32, as in `lora.merged_state_dict`. Then the buffers that are saved with them, of which
    every rank has the whole, in their own types."""
    parameters = dict(policy.named_parameters())
    modules = dict(policy.named_modules())
    for name, parameter in parameters.items():
        if ".lora_" in name:
            continue
        owner = name.removesuffix(".base_layer.weight")
        own_name = name.replace(".base_layer.", ".")
        full = _full(parameter.to(dtype))
        if owner != name:
            a = _full(parameters[f"{owner}.lora_A.{lora.NAME}.weight"])
            b = _full(parameters[f"{owner}.lora_B.{lora.NAME}.weight"])
            scaling = modules[owner].scaling[lora.NAME]
            transposed = own_name in policy.transposed
            full = full.float() + lora.product(a, b, scaling, transposed=transposed)
        yield policy.saved_name(own_name), full
    for name, buffer in policy.saved_buffers().items():
        yield policy.saved_name(name), buffer


def gathered_adapters(policy: CausalModel) -> Iterator[tuple[str, Tensor]]:
    """Each adapter in the type it is trained in, named as peft names it."""
    for name, parameter in policy.named_parameters():
        layer, found, adapter = name.partition(".lora_")
        if found:
            layer = policy.saved_name(f"{layer}.weight").removesuffix(".weight")
            yield f"{layer}.lora_{adapter}", _full(parameter)


def _full(parameter: Tensor) -> Tensor:
    """A sharded parameter, gathered."""
    full: Tensor = parameter.full_tensor()  # type: ignore[attr-defined]
    return full
