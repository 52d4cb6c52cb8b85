"""Where the checks run: the device, and the model with random weights."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file

from agentrl_components.model.causal_model import TIED_HEAD
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import WEIGHTS, export_weights, open_decoder
from agentrl_components.model.shape import read_native
from agentrl_components.spec import RunSpec

QWEN3_06B = {
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 512,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the checks run."""

    cpu: bool
    folder: Path
    """The model folder."""

    @property
    def device(self) -> Literal["cpu", "cuda"]:
        """Name of the device in torch."""
        return "cpu" if self.cpu else "cuda"

    @property
    def devices(self) -> int:
        """How many ranks there can be."""
        return 2 if self.cpu else torch.cuda.device_count()

    def spec(
        self, dtype: str, *, recompute: bool = False, compiled: bool = False, pack: int = 4096
    ) -> RunSpec:
        """The manifest of a check, whose packs have `pack` tokens at most."""
        return RunSpec.model_validate(
            {
                "model": {"source": f"file://{self.folder}", "context": 4096, "dtype": dtype},
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "update": {
                    "gradientCheckpointing": recompute,
                    "compile": compiled,
                    "microBatchTokens": pack,
                },
            }
        )

    def decoder(self, dtype: torch.dtype) -> Decoder:
        """The model without FSDP."""
        found = open_decoder(self.folder, dtype, torch.device(self.device), "native")
        assert isinstance(found, Decoder)
        return found


class Skipped(Exception):
    """The check needs what this machine does not have."""


def make_model(sizes: dict[str, int], folder: Path) -> None:
    """Write a Qwen3 with random weights, in bfloat16, without a tokenizer. As in the files of
    Qwen3-0.6B, the tied head is stored too."""
    config = sizes | {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "bos_token_id": None,
        "eos_token_id": 0,
        "dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config))
    decoder = Decoder(read_native(folder))
    decoder.initialise(torch.Generator().manual_seed(0))
    weights = {n: t.bfloat16() for n, t in export_weights(decoder).items()}
    weights[TIED_HEAD] = weights["model.embed_tokens.weight"].clone()
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


def require(module: str) -> None:
    """Raise `Skipped` if a package is not installed."""
    if importlib.util.find_spec(module) is None:
        raise Skipped(f"{module} is not installed")


def wait(place: Place) -> None:
    """Wait until the device has done what it was given."""
    if not place.cpu:
        torch.cuda.synchronize()


def seconds_of(once: Callable[[], object], place: Place, count: int) -> float:
    """Seconds of a call, of `count` in a row after three others."""
    for calls in (3, count):
        wait(place)
        began = time.perf_counter()
        for _ in range(calls):
            once()
        wait(place)
        seconds = (time.perf_counter() - began) / calls
    return seconds
