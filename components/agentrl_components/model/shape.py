"""The sizes of the model in a folder, read from its config.json.

Torch is imported only for a model that the built-in decoder does not have. Transformers' own config
classes are used for no other: importing them takes seconds in every process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from agentrl_components.errors import ArchitectureError, ModelError
from agentrl_components.model.architecture import Architecture, Rope, check_causal
from agentrl_components.spec.fields.model import Implementation, Tiny
from agentrl_envs.needs import install_extras

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
"""Supported values of `model_type`."""

QWEN = ("qwen2", "qwen3")
"""Those with the field `use_sliding_window`."""

KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}
HEAD_DIMS = {"qwen3": 128}
"""What transformers assumes if config.json does not state `num_key_value_heads` or `head_dim`."""


def read_shape(folder: Path, implementation: Implementation) -> Architecture:
    """The architecture of the built-in decoder, or the sizes that transformers states.

    Raises:
        ArchitectureError: it is not a causal language model, or not one of this implementation.
        ModelError: config.json cannot be read, or transformers is needed and not installed.
    """
    if implementation != "transformers":
        try:
            return read_native(folder)
        except ArchitectureError:
            if implementation == "native":
                raise
    try:
        from agentrl_components.model.foreign.open import counted
    except ImportError as error:
        raise ModelError(
            f"{folder / 'config.json'}: only transformers has this architecture, and it is not "
            f"installed; {install_extras('train')}"
        ) from error
    return counted(folder)


def tiny_shape(tiny: Tiny, vocabulary: int) -> Architecture:
    """The architecture that `model.sources.make_tiny` writes."""
    return Architecture(
        family="llama",
        vocabulary=vocabulary,
        hidden=tiny.hidden,
        intermediate=tiny.intermediate,
        layers=tiny.layers,
        heads=tiny.heads,
        kv_heads=tiny.kv_heads,
        head_width=tiny.hidden // tiny.heads,
        eps=1e-6,
        rope=Rope(),
        tied=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        normed=False,
    )


def read_native(folder: Path) -> Architecture:
    """The architecture of a model folder that the built-in decoder has.

    Raises:
        ArchitectureError: the built-in decoder does not have this architecture.
        ModelError: config.json is missing or malformed.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path}: is not a JSON object; use a folder saved by transformers")
    check_causal(path, config.get("is_causal", True))
    family = config.get("model_type")
    if family not in FAMILIES:
        raise ArchitectureError(
            f"{path}: model type {family!r} is not one of {', '.join(FAMILIES)}"
        )
    # The default is a window of 4096 tokens. Only Qwen has a field that says whether it is used.
    windowed = family == "mistral" or (family in QWEN and config.get("use_sliding_window", False))
    if windowed and config.get("sliding_window", 4096):
        raise ArchitectureError(f"{path}: sliding-window attention is not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ArchitectureError(
            f"{path}: hidden_act {config['hidden_act']!r} is not supported; only silu is"
        )
    try:
        return _architecture(_Config.model_validate(config))
    except ValidationError as error:
        reasons = (
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" if one["loc"] else one["msg"]
            for one in error.errors()
        )
        raise ModelError(f"{path}: {'; '.join(reasons)}") from error
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error


Size = Annotated[int, Field(ge=1, lt=2**31)]
Number = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Config(_Fields):
    """The fields of config.json that are read, with the defaults of transformers."""

    model_type: str
    vocab_size: Size
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Field(ge=1, le=10_000)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    rms_norm_eps: Number = 1e-6
    max_position_embeddings: Size | None = None
    original_max_position_embeddings: Any = None
    rope_theta: Number = 10000.0
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    tie_word_embeddings: bool | None = False
    attention_bias: bool | None = False
    mlp_bias: bool | None = False

    @property
    def kv_heads(self) -> int:
        if "num_key_value_heads" in self.model_fields_set:
            return self.num_key_value_heads or self.num_attention_heads
        return KV_HEADS.get(self.model_type, self.num_attention_heads)

    @property
    def head_width(self) -> int:
        stated = "head_dim" in self.model_fields_set
        width = self.head_dim if stated else HEAD_DIMS.get(self.model_type)
        return width or self.hidden_size // self.num_attention_heads


class _Rotation(_Fields):
    """Fields of `rope_parameters`, or of `rope_scaling` before transformers 5."""

    rope_theta: Number | None = None
    rope_type: str = Field("default", validation_alias=AliasChoices("rope_type", "type"))


class _Llama3(_Fields):
    """Further ones of the scaling of Llama 3."""

    factor: Number
    low_freq_factor: Number
    high_freq_factor: Number
    original_max_position_embeddings: Size | None = None


def _architecture(config: _Config) -> Architecture:
    heads, kv_heads = config.num_attention_heads, config.kv_heads
    if heads % kv_heads:
        raise ModelError(f"{heads} heads is not a multiple of {kv_heads} key heads")
    if config.head_width < 2 or config.head_width % 2:
        raise ModelError(f"heads of width {config.head_width} cannot be rotated; it must be even")
    # Other families have neither field: transformers ignores it in their config.json.
    bias = bool(config.attention_bias) and config.model_type in ("llama", "qwen3")
    mlp_bias = bool(config.mlp_bias) and config.model_type == "llama"
    return Architecture(
        family=config.model_type,
        vocabulary=config.vocab_size,
        hidden=config.hidden_size,
        intermediate=config.intermediate_size,
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=kv_heads,
        head_width=config.head_width,
        eps=config.rms_norm_eps,
        rope=_rope(config),
        tied=bool(config.tie_word_embeddings),
        # Qwen2 has these biases although its config.json has no field for them.
        qkv_bias=bias or config.model_type == "qwen2",
        out_bias=bias,
        mlp_bias=mlp_bias,
        normed=config.model_type == "qwen3",
        positions=config.max_position_embeddings,
    )


def _rope(config: _Config) -> Rope:
    stated = config.rope_scaling or config.rope_parameters or {}  # as transformers prefers them
    rotation = _Rotation.model_validate(stated)
    theta = rotation.rope_theta or config.rope_theta
    if rotation.rope_type == "default":
        return Rope(theta=theta)
    if rotation.rope_type != "llama3":
        raise ArchitectureError(
            f"rotary scaling {rotation.rope_type!r} is not supported; only default and llama3 are"
        )
    scaling = _Llama3.model_validate(stated)
    original = scaling.original_max_position_embeddings
    if original is None or config.original_max_position_embeddings is not None:
        raise ArchitectureError(
            "llama3 scaling is supported only with original_max_position_embeddings beside its "
            "factors"
        )
    if scaling.high_freq_factor <= scaling.low_freq_factor:
        raise ModelError("high_freq_factor must be above low_freq_factor")
    return Rope(
        theta=theta,
        factor=scaling.factor,
        low=scaling.low_freq_factor,
        high=scaling.high_freq_factor,
        original=original,
    )
