"""How gradients become weights."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.fields.base import Part


class Update(Part):
    """The optimizer and how a batch is cut."""

    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    """AdamW step size."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the step size moves over the whole run, down to `finalShare` of itself."""
    final_share: float = Field(default=0.1, ge=0, le=1)
    """For linear and cosine: the step size of the last iteration as a share of the first."""
    warmup_iterations: int = Field(default=0, ge=0, le=100000)
    """Iterations over which the step size rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """AdamW's."""
    beta2: float = Field(default=0.99, gt=0, lt=1)
    """AdamW's second decay."""
    max_grad_norm: float = Field(default=1.0, gt=0, le=1000)
    """Gradients are scaled down to this norm."""
    epochs: int = Field(default=1, ge=1, le=100)
    """Passes over the episodes of an iteration."""
    mini_batch: int = Field(default=32, ge=1, le=1048576)
    """Episodes per optimizer step."""
    micro_batch_tokens: int = Field(default=4096, ge=64, le=16777216)
    """Tokens packed into one forward and backward pass. A longer episode has a pass to itself."""
    logits_chunk: int = Field(default=1024, ge=16, le=1048576)
    """Tokens whose logits exist at one time."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: a third more work, far less memory."""
    checkpoint_every: int = Field(default=10, ge=1, le=100000)
    """Iterations between checkpoints."""
    keep_last: int = Field(default=2, ge=1, le=1000)
    """Checkpoints kept, besides the best and those that end a phase."""
