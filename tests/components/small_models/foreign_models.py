"""Tiny random models of architectures that the built-in decoder does not have."""

from pathlib import Path
from typing import Any

import torch

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "initializer_range": 0.2,
}
KEYS = {"num_key_value_heads": 2}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "falcon": {},  # one key head, parallel blocks
    # Recurrent states; the head reads a factor of the body.
    "falcon_h1": KEYS
    | {
        "mamba_d_ssm": 64,
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_chunk_size": 8,
        "lm_head_multiplier": 2.0,
    },
    "gemma2": KEYS | {"head_dim": 8, "sliding_window": 8},  # capped logits, windows
    "gemma3_text": KEYS | {"head_dim": 8, "sliding_window": 8},
    "gemma4_text": KEYS  # buffers that are saved with the weights
    | {
        "head_dim": 8,
        "global_head_dim": 8,
        "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 64,
        "num_kv_shared_layers": 0,
    },
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},  # learnt positions
    "gpt_neox": {},
    "granite": KEYS | {"logits_scaling": 3.0},
    "olmo2": KEYS,
    # A body within the body, and hidden states of another width.
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 16},
    "phi3": KEYS,
    "starcoder2": KEYS,
}


def save_model(family: str, folder: Path, **changes: Any) -> Any:
    """Save a model of transformers with random weights to `folder`, and return it."""
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = SIZES | ARCHITECTURES.get(family, KEYS) | changes
    if family == "gpt2":
        sizes = {k: v for k, v in sizes.items() if not k.startswith(("hidden", "num_", "inter"))}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = AutoConfig.for_model(family, **sizes)
        model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    return model
