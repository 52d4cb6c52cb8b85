"""The shape of a decoder, as transformers writes it in config.json.

Read here rather than with transformers, whose configs take seconds to import in every process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl_components.errors import ModelError

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary positions (arXiv 2104.09864), with Llama 3's scaling for long contexts where
    stated."""

    theta: float = 10000.0
    factor: float = 1.0
    low: float = 1.0
    """Wavelengths above original / low are divided by `factor`..."""
    high: float = 4.0
    """...those below original / high are left, those between are blended."""
    original: int = 8192

    def frequencies(self, width: int) -> list[float]:
        """Inverse frequencies [width / 2]."""
        return [self._scaled(self.theta ** (-i / width)) for i in range(0, width, 2)]

    def _scaled(self, frequency: float) -> float:
        if self.factor == 1.0:
            return frequency
        blend = (self.original * frequency / (2 * math.pi) - self.low) / (self.high - self.low)
        blend = min(1.0, max(0.0, blend))
        return frequency * (blend + (1 - blend) / self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A decoder of the Llama family."""

    family: str
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    eps: float
    rope: Rope
    tied: bool
    """The embedding is also the language-model head."""
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    normed: bool
    """Queries and keys are normalised (Qwen3)."""


def read(folder: Path) -> Architecture:
    """The architecture of a model folder. Raises `ModelError` naming what cannot be used."""
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: holds no settings; give a folder saved by transformers")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ModelError(f"{path}: model type {family!r} is not one of {', '.join(FAMILIES)}")
    if config.get("sliding_window") and config.get("use_sliding_window", family == "mistral"):
        raise ModelError(f"{path}: sliding-window attention is not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"{path}: hidden_act {config['hidden_act']!r} is not supported; silu is")
    try:
        return _architecture(config)
    except KeyError as error:
        raise ModelError(f"{path}: has no {error.args[0]}") from error
    except TypeError as error:
        raise ModelError(f"{path}: holds a value of the wrong type: {error}") from error
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _architecture(config: Mapping[str, Any]) -> Architecture:
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise ModelError(f"{heads} heads cannot share {kv_heads} key heads")
    bias = bool(config.get("attention_bias", False))
    return Architecture(
        family=config["model_type"],
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_width=config.get("head_dim") or config["hidden_size"] // heads,
        eps=config.get("rms_norm_eps", 1e-6),
        rope=_rope(config),
        tied=bool(config.get("tie_word_embeddings", False)),
        # Qwen2 biases its projections without saying so.
        qkv_bias=bias or config["model_type"] == "qwen2",
        out_bias=bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        normed=config["model_type"] == "qwen3",
    )


def _rope(config: Mapping[str, Any]) -> Rope:
    """From `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = stated.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind == "default":
        return Rope(theta=theta)
    if kind != "llama3":
        raise ModelError(f"rotary scaling {kind!r} is not supported; default and llama3 are")
    return Rope(
        theta=theta,
        factor=stated["factor"],
        low=stated["low_freq_factor"],
        high=stated["high_freq_factor"],
        original=stated["original_max_position_embeddings"],
    )
