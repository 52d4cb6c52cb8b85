"""The sizes and options of a model, by which its decoder is built and its memory is counted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from agentrl_components.errors import ModelError


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
    largest: int
    """Parameters of the largest weight."""
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
    positions: int | None = None
    """Length of the sequences that the model was made for, in tokens. None: it is not stated."""
    bounded: bool = False
    """Whether longer sequences cannot be computed, since each position has its own weight, or
    rotary frequencies would depend on the longest sequence of a pass."""
    latent: int | None = None
    """Numbers of a token that each layer caches in place of keys and values of heads (multi-head
    latent attention, arXiv 2405.04434). None: it caches keys and values."""
    partly_cached: bool = False
    """Whether some layers cache less than the whole context: attention with a window, or recurrent
    states."""
    counted: Counted | None = None
    """None: the built-in decoder, whose parameters follow from the fields above."""

    def check_context(self, context: int) -> None:
        """Raise `ModelError` if episodes of `context` tokens cannot be computed."""
        if self.bounded and self.extrapolates(context):
            raise ModelError(
                f"spec.model.context: is {context}, and the model has {self.positions} positions; "
                f"set it to {self.positions} or less"
            )

    def extrapolates(self, context: int) -> bool:
        """Whether episodes of `context` tokens are longer than what the model was made for."""
        return self.positions is not None and context > self.positions

    def cached(self, devices: int) -> int:
        """Numbers of a token that each of the `devices` of an engine caches in all layers. Heads
        are divided among the devices, a latent vector is on every one."""
        if self.latent is not None:
            return self.layers * self.latent
        return 2 * self.layers * max(1, self.kv_heads // devices) * self.head_width

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


def check_causal(path: Path, is_causal: object) -> None:
    """Raise `ModelError` if the field `is_causal` of the config.json at `path` says that tokens
    attend to later ones, as in models of embeddings: they cannot be sampled from token by token."""
    if not is_causal:
        raise ModelError(
            f"{path}: is_causal is {is_causal!r}, so tokens attend to later ones; use a model "
            "that generates text"
        )
