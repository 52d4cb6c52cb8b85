"""Which weights the agent starts from."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.fields.base import Part

SOURCE = r"^(tiny|hf://.+|s3://[^/]+/.+|models:/.+|file://.+)$"


class Tiny(Part):
    """A Llama-shaped model with random weights and a vocabulary of the environments' own words."""

    layers: int = Field(default=3, ge=1, le=48)
    """Decoder layers."""
    hidden: int = Field(default=96, ge=16, le=4096)
    """Width of the residual stream."""
    heads: int = Field(default=3, ge=1, le=64)
    """Query heads. Divides `hidden` into parts of even size."""
    kv_heads: int = Field(default=3, ge=1, le=64)
    """Key and value heads. Divides `heads`."""
    intermediate: int = Field(default=192, ge=16, le=16384)
    """Width inside the feed-forward block."""


class Lora(Part):
    """Low-rank adapters (peft) instead of full fine-tuning."""

    rank: int = Field(default=16, ge=1, le=512)
    """Rank of every adapter."""
    alpha: int = Field(default=32, ge=1, le=1024)
    """Adapter scale is alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of adapter inputs dropped while training. Above 0, sampler and trainer differ."""
    targets: tuple[Annotated[str, StringConstraints(min_length=1, max_length=128)], ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        max_length=16,
    )
    """Linear layers that get an adapter."""


class Model(Part):
    """The model that learns to act."""

    source: Annotated[str, StringConstraints(pattern=SOURCE, max_length=512)] = "tiny"
    """`tiny` (from scratch), `hf://org/name`, `s3://bucket/prefix`, `models:/name/version`
    (MLflow's registry) or `file:///folder`. Folders are in the layout that transformers saves."""
    revision: str | None = Field(default=None, max_length=128)
    """Commit, tag or branch of an `hf://` source. None: its default branch."""
    tiny: Tiny = Tiny()
    """The shape of a `tiny` model; ignored for other sources."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type that weights are held and computed in. Optimizer state stays float32."""
    context: int = Field(default=1024, ge=64, le=1048576)
    """Longest episode, in tokens: prompt, replies and observations together. The replies of the
    longest phase, maxTurns * rollout.maxTokensPerTurn, must be below it."""
    template: Literal["auto", "plain", "react", "chat"] = "auto"
    """How a conversation becomes tokens. `plain`: bare texts between separator tokens (tiny
    models); `react`: Observation/Action lines; `chat`: the tokenizer's own chat template. auto:
    plain for `tiny`, else chat."""
    lora: Lora | None = None
    """Train adapters. None: train every weight."""
