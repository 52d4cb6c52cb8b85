"""What the model learns before reinforcement learning starts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.fields.base import Part


class WarmStart(Part):
    """Imitation, of given or of own play. Absent: reinforcement learning from the very start."""

    algorithm: Literal["sft", "hindsight", "filtered-imitation"]
    """`sft`: imitate the trajectories at `trajectories`. `hindsight`: play random admissible
    actions, relabel each episode with a goal it happened to reach, imitate that.
    `filtered-imitation`: sample from the model, keep what succeeded, imitate that; again
    (AgentEvol, arXiv 2406.04151)."""
    trajectories: (
        Annotated[str, StringConstraints(pattern=r"^(file|s3)://.+", max_length=512)] | None
    ) = None
    """For `sft`: a JSONL file (`file://` or `s3://`), one conversation a line."""
    episodes: int = Field(default=3000, ge=1, le=10000000)
    """Episodes to play (hindsight: in all; filtered-imitation: per round)."""
    max_turns: int = Field(default=4, ge=1, le=1000)
    """Turns of each of these episodes."""
    rounds: int = Field(default=1, ge=1, le=100)
    """For `filtered-imitation`: how many times to sample and imitate."""
    epochs: int = Field(default=1, ge=1, le=100)
    """Passes over the data of a round."""
    batch: int = Field(default=16, ge=1, le=65536)
    """Episodes per optimizer step."""
    learning_rate: float = Field(default=3e-3, gt=0, le=1)
    """AdamW step size, falling to a tenth along a cosine."""
    observation_weight: float = Field(default=0.1, ge=0, le=1)
    """Weight of the loss on observation tokens, beside 1 on the agent's own: learning to predict
    the world helps a model that starts from nothing."""
    path_weight: float = Field(default=1.0, ge=0, le=1)
    """For `hindsight`: weight of the loss on actions before the one that reached the goal. They
    were random, so they teach little; at 0 a model never learns what to do when no goal is near."""
