"""How episodes are played."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.fields.base import Part


class Rollout(Part):
    """Tasks, samples and limits of one iteration."""

    tasks: int = Field(default=16, ge=1, le=65536)
    """Tasks of an iteration."""
    group_size: int = Field(default=8, ge=1, le=1024)
    """Episodes of each task. At least 2 where the algorithm compares them."""
    actions: Literal["free", "admissible"] = "free"
    """`free`: the model writes what it likes. `admissible`: decoding is confined to the actions
    that the environment admits; the mask is then part of the agent, in training and in
    evaluation."""
    engine: Literal["torch", "vllm"] = "torch"
    """What samples. `torch`: in process, bit-reproducible on CPU. `vllm`: for real sizes."""
    temperature: float = Field(default=1.0, ge=0.01, le=5)
    """Of sampling; colder, vLLM would sample from another distribution than it reports.
    Log-probabilities are those of the distribution that was sampled."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Nucleus. Below 1, sampler and trainer differ by what is cut; importanceSampling corrects
    it."""
    max_tokens_per_turn: int = Field(default=64, ge=1, le=32768)
    """Tokens of one reply. A reply cut here has no stop token, and none is trained."""
    max_lost_share: float = Field(default=0.2, ge=0, le=1)
    """The run stops when more than this share of an iteration's episodes is lost to the
    environment."""
    retries: int = Field(default=2, ge=0, le=10)
    """How often an episode whose session was lost is played anew at once, on another session. One
    that fails each time is played again from the same seeds when the others are done, up to three
    times, and only then dropped from its group."""
    max_staleness: int = Field(default=0, ge=0, le=8)
    """Updates that the weights which play may lag behind those which learn. 0: an iteration is
    played by the weights that the one before it left, so rollout and update take turns. Above 0 and
    with compute.placement `disaggregated` they work at the same time. The lag is a function of the
    schedule, so results do not depend on placement or speed: it is 0 in the first iteration of a
    phase and after a rollback, and then grows by 1 an iteration up to this. What was played ahead
    for a phase that then ended early is dropped. importanceSampling corrects for the lag."""
    concurrency: int = Field(default=256, ge=1, le=65536)
    """Episodes in flight at once in each worker."""
