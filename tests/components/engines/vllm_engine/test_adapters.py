"""Adapters in the layout that vLLM loads."""

import json

import torch
from safetensors.torch import load_file

from agentrl_components.engines.vllm_engine.adapters import room_for, write_adapters
from agentrl_components.spec import Lora


def test_adapters_are_written_as_peft_names_them(tmp_path):
    lora = Lora(rank=2, alpha=6, targets=("q_proj",))
    layer = "model.layers.0.self_attn.q_proj"
    adapters = {
        f"{layer}.lora_A.default.weight": torch.ones(2, 3),
        f"{layer}.lora_B.default.weight": torch.zeros(4, 2),
    }
    write_adapters(tmp_path, lora, adapters)
    found = load_file(tmp_path / "adapter_model.safetensors")
    assert {name: tuple(tensor.shape) for name, tensor in found.items()} == {
        f"base_model.model.{layer}.lora_A.weight": (2, 3),
        f"base_model.model.{layer}.lora_B.weight": (4, 2),
    }
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["target_modules"]) == (2, 6, ["q_proj"])


def test_there_is_room_for_the_next_larger_rank_that_vllm_has():
    assert room_for(4)["max_lora_rank"] == 8
    assert room_for(16)["max_lora_rank"] == 16
    assert room_for(512)["max_lora_rank"] == 512
