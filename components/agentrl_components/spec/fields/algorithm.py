"""Algorithm: advantage estimation and the loss."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agentrl_components.spec.algorithms import (
    ALGORITHMS,
    AlgorithmName,
    AlgorithmTraits,
    NormalisationName,
)
from agentrl_components.spec.base import SpecModel


class Reward(SpecModel):
    """Reward shaping: how an episode's score becomes the reward for advantage estimation."""

    turn_penalty: float = Field(default=0.0, ge=0, le=1)
    """The score is multiplied by 1 - turnPenalty * turns / maxTurns, so shorter episodes earn
    more."""
    turn_discount: float = Field(default=1.0, gt=0, le=1)
    """The score is multiplied by turnDiscount ** (turns - 1)."""


class Gae(SpecModel):
    """Generalised advantage estimation (arXiv 1506.02438), for `ppo`."""

    level: Literal["token", "turn"] = "token"
    """`token`: one step per sampled token. `turn`: one step per turn; all tokens of a turn get the
    same advantage."""
    gamma: float = Field(default=1.0, gt=0, le=1)
    """Discount factor per step."""
    lam: float = Field(default=1.0, ge=0, le=1)
    """GAE's lambda: 1 is Monte Carlo, 0 is one-step temporal difference."""


class Critic(SpecModel):
    """The value model, for `ppo`: the policy's architecture with a scalar head."""

    learning_rate: float | None = Field(default=None, gt=0, le=1)
    """AdamW learning rate, which follows the schedule of the policy's. None: 1e-3 for a `tiny`
    model, else 1e-5."""
    value_clip: float = Field(default=0.5, gt=0, le=100)
    """Maximum change of a value estimate in one update."""
    warmup_iterations: int = Field(default=0, ge=0, le=10000)
    """Iterations at the start in which only the critic is trained."""


class Kl(SpecModel):
    """Penalty on the KL divergence between the policy and a reference model."""

    coefficient: float = Field(default=0.0, ge=0, le=10)
    """Weight of the penalty in the loss. 0: no penalty, and no reference model in memory."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Schulman's KL estimator, whose value, clamped to [-10, 10] per token, `update/kl` and
    `update/loss` report. Weights do not depend on it: the gradient is that of
    KL(policy || reference) for each."""


class ImportanceSampling(SpecModel):
    """Correction for a sampler whose log-probabilities differ from the trainer's."""

    mode: Literal["off", "truncate", "mask"] = "truncate"
    """`off`: no correction; the clip compares with the sampler's log-probabilities, and that of
    `gspo` is narrower than what usually differs between engines. `truncate`: each token's policy
    loss and KL penalty are weighted by min(ratio, cap). `mask`: by the ratio, and tokens whose
    ratio is above the cap or below its inverse are dropped from the loss, with their KL penalty and
    entropy bonus."""
    cap: float = Field(default=2.0, ge=1, le=100)
    """Bound on the per-token probability ratio trainer / sampler."""


class Algorithm(SpecModel):
    """The policy-gradient algorithm and its constants."""

    name: AlgorithmName = "grpo"
    """Advantage estimator and, for gspo, the level of the probability ratio."""
    reward: Reward = Reward()
    """Reward shaping."""
    scale_by_std: bool = True
    """For `grpo`, `gspo` and `gigpo`: divide group advantages by the standard deviation of the
    group. False: Dr.GRPO."""
    normalise: Literal["auto", "token", "sequence", "constant"] = "auto"
    """Reduction of the loss over tokens. `token`: mean over all tokens (DAPO). `sequence`: mean
    over episodes of each episode's mean (GRPO, GSPO). `constant`: sum divided by episodes *
    model.context (Dr.GRPO). `auto`: `sequence` for `gspo`, else `token`."""
    clip_low: float | None = Field(default=None, gt=0, lt=1)
    """Probability ratios below 1 - clipLow are clipped. None: 3e-4 for `gspo`, else 0.2."""
    clip_high: float | None = Field(default=None, gt=0, le=10)
    """Probability ratios above 1 + clipHigh are clipped. Above clipLow: DAPO's clip-higher. None:
    4e-4 for `gspo`, else 0.28."""
    dual_clip: float | None = Field(default=3.0, gt=1, le=100)
    """Bound on the loss of tokens with negative advantage: dualClip * |advantage| (dual-clip PPO).
    None: no bound."""
    entropy: float = Field(default=0.0, ge=0, le=1)
    """Weight of the entropy bonus."""
    kl: Kl = Kl()
    """KL penalty."""
    importance_sampling: ImportanceSampling = ImportanceSampling()
    """Correction for differences between sampler and trainer."""
    gae: Gae = Gae()
    """For `ppo`."""
    critic: Critic = Critic()
    """For `ppo`."""
    gigpo_weight: float = Field(default=1.0, ge=0, le=10)
    """For `gigpo`: weight of the step-level advantage, relative to 1 for the episode-level one."""
    drop_zero_variance: bool | None = None
    """For algorithms whose baseline is the group: drop groups without a learning signal, as in DAPO
    (arXiv 2503.14476). These are groups whose episodes all have the same reward and, for `gigpo`,
    whose turns do not differ either. Dropped episodes are no part of the update: they get neither
    entropy bonus nor KL penalty. False: they stay for both, and with `reinforce++-baseline` for the
    shift of its normalisation, by which their tokens become likelier where failures are longer than
    successes. None: false for `gigpo`, which stops exploring on some seeds without the groups that
    always fail, else true."""
    refill_rounds: int = Field(default=0, ge=0, le=8)
    """How many more rounds of tasks an iteration may sample to replace dropped groups."""

    @property
    def traits(self) -> AlgorithmTraits:
        """The parts of the named algorithm."""
        return ALGORITHMS[self.name]

    @property
    def drops_groups(self) -> bool:
        """Whether groups without a learning signal are dropped, by the algorithm where not set."""
        if not self.traits.needs_group:
            return False
        chosen = self.drop_zero_variance
        return self.traits.drop_zero_variance if chosen is None else chosen

    @property
    def clip(self) -> tuple[float, float]:
        """Bounds below and above a probability ratio of 1, by the algorithm where not set."""
        low, high, traits = self.clip_low, self.clip_high, self.traits
        return (
            traits.clip_low if low is None else low,
            traits.clip_high if high is None else high,
        )

    @property
    def normalisation(self) -> NormalisationName:
        """Reduction of the loss over tokens, by the algorithm for `auto`."""
        return self.traits.normalise if self.normalise == "auto" else self.normalise
