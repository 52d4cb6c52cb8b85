"""Rollout: how episodes are sampled in an iteration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.base import SpecModel

Interrupt = Literal["finish", "continue", "abort"]
"""What new weights do to replies under way."""


class Rollout(SpecModel):
    """Tasks, sampling settings and limits of one iteration."""

    tasks: int = Field(default=16, ge=1, le=65536)
    """Tasks per iteration."""
    group_size: int = Field(default=8, ge=1, le=1024)
    """Episodes per task (a group). At least 2 if the algorithm's baseline is the group."""
    actions: Literal["free", "admissible"] = "free"
    """`free`: the model generates any text. `admissible`: decoding is constrained to the actions
    that the environment lists as admissible. The constraint is part of the policy, in training and
    in evaluation."""
    engine: Literal["torch", "vllm"] = "torch"
    """Inference engine. `torch`: in process, bit-reproducible on CPU. `vllm`: for large models."""
    temperature: float = Field(default=1.0, ge=0.01, le=5)
    """Sampling temperature. Log-probabilities are those of the distribution that was sampled. Below
    the lower bound, vLLM samples greedily but reports another distribution."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus sampling threshold. Below 1, the sampler's distribution differs from the trainer's by
    the truncated tail; importanceSampling corrects for it."""
    max_tokens_per_turn: int = Field(default=64, ge=1, le=32768)
    """Token limit of one reply. A reply cut off at the limit has no stop token, and no stop token
    is trained."""
    max_lost_share: float = Field(default=0.2, ge=0, le=1)
    """The run stops if more than this share of an iteration's episodes is lost to environment
    failures."""
    retries: int = Field(default=2, ge=0, le=10)
    """How often an episode whose session was lost is retried immediately on another session. An
    episode that fails every time is retried with the same seeds after all others have finished, up
    to three times, and then dropped from its group."""
    max_staleness: int = Field(default=0, ge=0, le=8)
    """Maximum number of updates by which the weights that sample an episode may be older than the
    weights that train on it. 0: on-policy; rollout and update alternate. Above 0, and with
    compute.placement `disaggregated`, they run concurrently. The lag is a function of the schedule,
    so results do not depend on placement or speed: it is 0 in the first iteration of a phase and
    after a rollback, then grows by 1 per iteration up to this limit. Episodes sampled ahead for a
    phase that ends early are dropped. importanceSampling corrects for the lag. With compute.ray
    and above 0, episodes stream: an iteration trains on the groups that were completed first,
    episodes under way go on with new weights, no token is older than this limit, and results depend
    on speed."""
    interrupt: Interrupt = "finish"
    """What new weights do to replies under way, with compute.ray and maxStaleness above 0.
    `finish`: the engine finishes them with the old weights first. `continue`: they go on with the
    new weights, which read all of their tokens again; the version is kept for each token. `abort`:
    they are sampled again from their first token."""
    concurrency: int = Field(default=256, ge=1, le=65536)
    """Episodes in flight at the same time in each worker process."""
