"""Model: initial weights, precision, context length and LoRA."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.addresses import S3_OBJECT
from agentrl_components.spec.base import SpecModel

SOURCE = rf"^(tiny|hf://.+|{S3_OBJECT}|models:/.+|file:///.+)$"


Implementation = Literal["auto", "native", "transformers"]


class Tiny(SpecModel):
    """A small Llama architecture with random weights and a word-level vocabulary taken from the
    environments."""

    layers: int = Field(default=3, ge=1, le=48)
    """Number of decoder layers."""
    hidden: int = Field(default=96, ge=16, le=4096)
    """Hidden size."""
    heads: int = Field(default=3, ge=1, le=64)
    """Number of query heads. `hidden` / `heads` must be an even integer."""
    kv_heads: int = Field(default=3, ge=1, le=64)
    """Number of key and value heads. Must divide `heads`."""
    intermediate: int = Field(default=192, ge=16, le=16384)
    """Intermediate size of the feed-forward block."""


class Lora(SpecModel):
    """LoRA (peft) instead of full fine-tuning."""

    rank: int = Field(default=16, ge=1, le=512)
    """Rank of the adapters."""
    alpha: int = Field(default=32, ge=1, le=1024)
    """The adapters' output is scaled by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout probability of adapter inputs in the passes whose gradients are taken, of updates and
    of a warm start. Sampling and the log-probabilities before an update are without it, so the
    clipped probability ratio is not 1 even before the first step of an update;
    `importanceSampling` does not correct for that."""
    targets: tuple[Annotated[str, StringConstraints(min_length=1, max_length=128)], ...] = Field(
        default=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        max_length=16,
    )
    """Names of the linear layers that get an adapter."""


class Model(SpecModel):
    """The policy model."""

    source: Annotated[str, StringConstraints(pattern=SOURCE, max_length=512)] = "tiny"
    """Initial weights: `tiny` (random), `hf://org/name`, `s3://bucket/prefix`, `file:///folder` or
    `models:/name/version` (MLflow model registry). Folders have the layout of `save_pretrained` in
    transformers."""
    revision: str | None = Field(default=None, max_length=128)
    """Commit, tag or branch of an `hf://` source. None: its default branch. A run keeps the commit
    that it was at its first start."""
    tiny: Tiny = Tiny()
    """Architecture of a `tiny` model; ignored for other sources."""
    implementation: Implementation = "auto"
    """What computes the model in trainers and in the torch engine. `native`: the built-in decoder
    (Llama, Mistral, Qwen2 and Qwen3). `transformers`: transformers' own code, for any causal
    language model. `auto`: `native` where it has the architecture, else `transformers`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Data type of weights and computation. Optimizer state is always float32."""
    context: int = Field(default=1024, ge=64, le=1048576)
    """Maximum length of an episode in tokens: prompt, replies and observations. An episode that
    fills it ends there, which `train/out_of_tokens` counts."""
    template: Literal["auto", "plain", "react", "chat"] = "auto"
    """How a conversation is rendered to tokens. `plain`: texts between separator tokens (for tiny
    models). `react`: Observation and Action lines. `chat`: the tokenizer's chat template. `auto`:
    `plain` for `tiny`, else `chat`."""
    thinking: bool = False
    """Have the model think before it acts, by its chat template's `enable_thinking` (Qwen3).
    Thoughts are tokens of a reply (`rollout.maxTokensPerTurn`), are trained, and stay in the
    episode; the environment gets what follows them."""
    lora: Lora | None = None
    """LoRA settings. None: full fine-tuning."""
