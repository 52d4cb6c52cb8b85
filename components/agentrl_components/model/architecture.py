"""Read the shape of a decoder from the config.json of a model folder.

Transformers' own config classes are not used: importing them takes seconds in every process.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl_components.errors import ArchitectureError, ModelError

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
"""Supported values of `model_type`."""

KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}
HEAD_DIMS = {"qwen3": 128}
"""What transformers assumes if config.json does not state `num_key_value_heads` or `head_dim`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary position embedding (arXiv 2104.09864), with the frequency scaling of Llama 3."""

    theta: float = 10000.0
    factor: float = 1.0
    """Frequencies of wavelengths above original / low are divided by this. 1: no scaling."""
    low: float = 1.0
    high: float = 4.0
    """Frequencies of wavelengths below original / high are unchanged; those between are
    interpolated."""
    original: int = 8192
    """Context length that the model was trained with before scaling, in tokens."""

    def frequencies(self, width: int) -> list[float]:
        """Inverse frequencies [width / 2] of a head of `width` dimensions."""
        return [self._scaled(self.theta ** (-i / width)) for i in range(0, width, 2)]

    def _scaled(self, frequency: float) -> float:
        if self.factor == 1.0:
            return frequency
        blend = (self.original * frequency / (2 * math.pi) - self.low) / (self.high - self.low)
        blend = min(1.0, max(0.0, blend))
        return frequency * (blend + (1 - blend) / self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Numbers of parameters of a model whose sizes do not determine them."""

    total: int
    embedding: int
    """Parameters of the token embedding."""
    block: int
    """Parameters of the largest transformer block."""
    linear: tuple[tuple[str, int, int], ...]
    """Name and the two dimensions of every linear layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """Sizes and options of a Llama-like decoder, and the sizes of any other."""

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
    """The language-model head shares the embedding's weight."""
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    normed: bool
    """Queries and keys are normalised per head (Qwen3)."""
    counted: Counted | None = None
    """None: the built-in decoder, whose parameters follow from the fields above."""

    def undivided(self, parts: int) -> str:
        """What tensor parallelism over so many devices cannot divide, in words; empty if nothing.
        vLLM gives each device as many query heads and columns of the feed-forward layers, and as
        many key heads, or each key head to as many devices."""
        if self.heads % parts:
            return f"{self.heads} heads"
        if max(self.kv_heads, parts) % min(self.kv_heads, parts):
            return f"{self.kv_heads} key heads"
        if self.intermediate % parts:
            return f"{self.intermediate} columns of its feed-forward layers"
        return ""

    @property
    def divisors(self) -> list[int]:
        """The numbers of devices over which tensor parallelism can divide the model."""
        return [parts for parts in range(1, self.heads + 1) if not self.undivided(parts)]


def read(folder: Path) -> Architecture:
    """The architecture of a model folder.

    Raises:
        ArchitectureError: the built-in decoder does not have this architecture.
        ModelError: config.json is missing or malformed.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: is not a JSON object; use a folder saved by transformers")
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ArchitectureError(
            f"{path}: model type {family!r} is not one of {', '.join(FAMILIES)}"
        )
    # Mistral's default is a window of 4096 tokens, and Qwen's if `use_sliding_window` is set.
    window = config.get("sliding_window", 0 if family == "llama" else 4096)
    if window and config.get("use_sliding_window", family == "mistral"):
        raise ArchitectureError(f"{path}: sliding-window attention is not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ArchitectureError(
            f"{path}: hidden_act {config['hidden_act']!r} is not supported; only silu is"
        )
    try:
        return _architecture(config)
    except KeyError as error:
        raise ModelError(f"{path}: {error.args[0]} is missing") from error
    except TypeError as error:
        raise ModelError(f"{path}: a value has the wrong type: {error}") from error
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error


def _architecture(config: Mapping[str, Any]) -> Architecture:
    heads = config["num_attention_heads"]
    default = KV_HEADS.get(config["model_type"], heads)
    kv_heads = config.get("num_key_value_heads", default) or heads
    if heads % kv_heads:
        raise ModelError(f"{heads} heads is not a multiple of {kv_heads} key heads")
    bias = bool(config.get("attention_bias", False))
    return Architecture(
        family=config["model_type"],
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        intermediate=config["intermediate_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_width=config.get("head_dim", HEAD_DIMS.get(config["model_type"]))
        or config["hidden_size"] // heads,
        eps=config.get("rms_norm_eps", 1e-6),
        rope=_rope(config),
        tied=bool(config.get("tie_word_embeddings", False)),
        # Qwen2 has these biases although its config.json has no field for them.
        qkv_bias=bias or config["model_type"] == "qwen2",
        out_bias=bias,
        mlp_bias=bool(config.get("mlp_bias", False)),
        normed=config["model_type"] == "qwen3",
    )


def _rope(config: Mapping[str, Any]) -> Rope:
    """Reads `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = stated.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = stated.get("rope_type", stated.get("type", "default"))
    if kind == "default":
        return Rope(theta=theta)
    if kind != "llama3":
        raise ArchitectureError(
            f"rotary scaling {kind!r} is not supported; only default and llama3 are"
        )
    return Rope(
        theta=theta,
        factor=stated["factor"],
        low=stated["low_freq_factor"],
        high=stated["high_freq_factor"],
        original=stated["original_max_position_embeddings"],
    )
