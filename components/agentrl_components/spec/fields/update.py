"""Update: the optimizer and how an iteration's episodes are batched."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.base import SpecModel


class Update(SpecModel):
    """Optimizer settings and batch sizes."""

    learning_rate: float = Field(default=1e-6, gt=0, le=1)
    """AdamW learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate schedule over the whole run, decaying to `finalShare` of `learningRate`. The
    rate depends on the share of the greatest number of iterations that is done, so a run whose
    phases end early ends with a higher one."""
    final_share: float = Field(default=0.1, ge=0, le=1)
    """For linear and cosine: learning rate of the last iteration, as a share of `learningRate`, if
    every phase has all its iterations."""
    warmup_iterations: int = Field(default=0, ge=0, le=100000)
    """Iterations over which the learning rate rises linearly from 0, counted from the start of the
    run: with those of `critic.warmupIterations`, in which the policy takes no step."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """AdamW weight decay."""
    beta2: float = Field(default=0.99, gt=0, lt=1)
    """AdamW beta2, the decay rate of the second moment."""
    max_grad_norm: float = Field(default=1.0, gt=0, le=1000)
    """Gradients are clipped to this global norm."""
    epochs: int = Field(default=1, ge=1, le=100)
    """Passes over the episodes of an iteration."""
    mini_batch: int = Field(default=32, ge=1, le=1048576)
    """Episodes per optimizer step. An epoch has round(episodes / miniBatch) steps, at least one, on
    mini-batches of nearly equal size, so that no step has few episodes: 80 episodes in mini-batches
    of 32 are two steps of 40."""
    micro_batch_tokens: int = Field(default=4096, ge=64, le=16777216)
    """Tokens packed into one forward and backward pass. A longer episode gets a pass of its own."""
    logits_chunk: int = Field(default=1024, ge=16, le=1048576)
    """Number of tokens whose logits are in memory at the same time. With `compile`, GPUs keep the
    logits of all tokens of free replies where they have memory for them."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: up to a third more computation, far less memory.
    Trainers on Ray that compute in bfloat16 on GPUs recompute as little as their memory demands."""
    compile: bool = False
    """Compile what is not attention in the trainers' passes (torch.compile; on GPUs our own kernels
    too): fewer reads of memory, and a minute more at the start. Needs `compute.ray`, a compiler on
    the trainers' machines (the image `trainer` has one), and a model that AgentRL computes itself.
    """
    checkpoint_every: int = Field(default=10, ge=1, le=100000)
    """Iterations between checkpoints."""
    keep_last: int = Field(default=2, ge=1, le=1000)
    """Number of recent checkpoints to keep, besides checkpoint 0, the best one, the one that an
    alarm would return to, and the last one of each phase."""
