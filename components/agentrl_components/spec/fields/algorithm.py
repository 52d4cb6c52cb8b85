"""How episodes become gradients."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.fields.base import Part

AlgorithmName = Literal[
    "ppo", "grpo", "rloo", "reinforce++", "reinforce++-baseline", "gspo", "gigpo"
]

COMPARES_A_GROUP: frozenset[str] = frozenset(
    {"grpo", "rloo", "reinforce++-baseline", "gspo", "gigpo"}
)
"""Algorithms whose baseline is the other episodes of the same task."""


class Reward(Part):
    """What an episode's score is turned into before advantages are computed."""

    turn_penalty: float = Field(default=0.0, ge=0, le=1)
    """Score is multiplied by 1 - turnPenalty * turns / maxTurns: sooner is better."""
    turn_discount: float = Field(default=1.0, gt=0, le=1)
    """Score is multiplied by turnDiscount ** (turns - 1)."""


class Gae(Part):
    """Generalised advantage estimation (arXiv 1506.02438), for `ppo`."""

    level: Literal["token", "turn"] = "token"
    """One step per sampled token, or one per turn (all tokens of a turn share its advantage)."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount per step."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """Trace decay: 1 is Monte Carlo, 0 one-step."""


class Critic(Part):
    """The value model, for `ppo`: the policy's architecture with a scalar head."""

    learning_rate: float = Field(default=1e-3, gt=0, le=1)
    """AdamW step size."""
    value_clip: float = Field(default=0.5, gt=0, le=100)
    """How far a value may move from its old estimate in one update."""
    warmup_iterations: int = Field(default=0, ge=0, le=10000)
    """Iterations in which only the critic learns."""


class Kl(Part):
    """A penalty that keeps the policy near a reference."""

    coefficient: float = Field(default=0.0, ge=0, le=10)
    """Weight in the loss. 0: no reference model is kept."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Schulman's estimators; clamped to [-10, 10] per token, since an unbounded k3 destroys
    runs."""


class ImportanceSampling(Part):
    """Correction for a sampler whose log-probabilities differ from the trainer's."""

    mode: Literal["off", "truncate", "mask"] = "truncate"
    """`truncate`: weight min(ratio, cap). `mask`: drop tokens whose ratio is above the cap or below
    its inverse."""
    cap: float = Field(default=2.0, ge=1, le=100)
    """Bound of the per-token ratio trainer / sampler."""


class Algorithm(Part):
    """The policy-gradient method and its constants."""

    name: AlgorithmName = "grpo"
    """Estimator of advantages (and, for gspo, of the ratio)."""
    reward: Reward = Reward()
    """Shaping of the score."""
    scale_by_std: bool = True
    """Divide group advantages by the group's standard deviation. False: Dr.GRPO."""
    normalise: Literal["token", "sequence", "constant"] = "token"
    """Mean over all tokens (DAPO), over episodes of per-episode means (GRPO), or a sum divided by a
    constant, the token limit of an episode (Dr.GRPO)."""
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """Ratios below 1 - clipLow stop counting."""
    clip_high: float = Field(default=0.28, gt=0, le=10)
    """Ratios above 1 + clipHigh stop counting. Above clipLow: DAPO's clip-higher."""
    dual_clip: float | None = Field(default=3.0, gt=1, le=100)
    """Bound on the loss of tokens with negative advantage. None: unbounded."""
    entropy: float = Field(default=0.0, ge=0, le=1)
    """Weight of the entropy bonus."""
    kl: Kl = Kl()
    """Penalty for leaving the reference policy."""
    importance_sampling: ImportanceSampling = ImportanceSampling()
    """Sampler-to-trainer correction."""
    gae: Gae = Gae()
    """For `ppo`."""
    critic: Critic = Critic()
    """For `ppo`."""
    gigpo_weight: float = Field(default=1.0, ge=0, le=10)
    """For `gigpo`: weight of the step-level advantage beside the episode's."""
    drop_zero_variance: bool = True
    """Leave out groups whose episodes all earned the same, where the algorithm compares a group."""
    refill_rounds: int = Field(default=0, ge=0, le=8)
    """How many times an iteration may play more tasks to replace dropped groups."""
