"""Adapters (LoRA) in a running vLLM, which keeps the base weights as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from agentrl_components.spec import Lora

RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM has room for, up to the largest that a manifest may have; an adapter takes that
of the next larger one."""


def room_for(rank: int) -> dict[str, Any]:
    """vLLM's arguments for a set of adapters of a rank."""
    largest = next(room for room in RANKS if room >= rank)
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": largest}


def write_adapters(folder: Path, lora: Lora, adapters: Mapping[str, Tensor]) -> None:
    """Write adapters to a folder in peft's layout, which vLLM loads. They are named as peft names
    them in a model, with transformers' names of the layers."""
    tensors = {_saved_name(name): tensor.contiguous() for name, tensor in adapters.items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": list(lora.targets),
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def _saved_name(name: str) -> str:
    """The name in peft's files of an adapter: without the name of the set of adapters."""
    place, _, kind = name.partition(".lora_")
    return f"base_model.model.{place}.lora_{kind[0]}.weight"
