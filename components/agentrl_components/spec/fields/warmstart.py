"""Warm start: imitation learning before reinforcement learning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from agentrl_components.spec.addresses import S3_OBJECT
from agentrl_components.spec.base import SpecModel

TRAJECTORIES = rf"^(file:///.+|{S3_OBJECT})$"


class WarmStart(SpecModel):
    """Imitation of given trajectories or of self-generated ones. Absent: reinforcement learning
    starts from the initial weights."""

    algorithm: Literal["sft", "hindsight", "filtered-imitation"]
    """`sft`: imitate the conversations in `trajectories`. `hindsight`: play random admissible
    actions, relabel each episode with a goal that it happened to reach, and imitate the result.
    `filtered-imitation`: sample episodes from the model, keep the successful ones and imitate them,
    for `rounds` rounds. As in AgentEvol (arXiv 2406.04151), but without its base data: a round
    imitates only its own successes, and goes on from the weights of the round before."""
    trajectories: Annotated[str, StringConstraints(pattern=TRAJECTORIES, max_length=512)] | None = (
        None
    )
    """For `sft`: a JSONL file (`file://` or `s3://`) with one conversation per line."""
    episodes: int = Field(default=3000, ge=1, le=10000000)
    """Episodes to play: in total for `hindsight`, per round for `filtered-imitation`."""
    max_turns: int = Field(default=4, ge=1, le=1000)
    """Turn limit of each of these episodes."""
    rounds: int = Field(default=1, ge=1, le=100)
    """For `filtered-imitation`: number of rounds of sampling and imitating."""
    epochs: int = Field(default=1, ge=1, le=100)
    """Passes over the data of a round."""
    batch: int = Field(default=16, ge=1, le=65536)
    """Episodes per optimizer step."""
    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """AdamW learning rate, decaying to a tenth along a cosine. None: 3e-3 for a `tiny` model, else
    1e-5."""
    observation_weight: float = Field(default=0.1, ge=0, le=1)
    """Weight of the loss on observation tokens, relative to 1 on the agent's own tokens. Learning
    to predict observations helps a model with random initial weights."""
    path_weight: float = Field(default=1.0, ge=0, le=1)
    """For `hindsight`: weight of the loss on the actions before the one that reached the goal. They
    are random, so they teach little. With 0 the model never learns how to act while no goal is
    near."""
