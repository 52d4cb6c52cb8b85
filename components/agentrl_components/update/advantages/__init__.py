"""Estimators of advantages: pure functions from numbers to numbers, one file each.

`ESTIMATORS[algorithm.name].estimate(episodes, algorithm)` is the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentrl_components.spec.fields.algorithm import Algorithm, AlgorithmName
from agentrl_components.update.advantages.episodes import Advantages, EpisodeView, zero_variance
from agentrl_components.update.advantages.gae import token_level, turn_level
from agentrl_components.update.advantages.gigpo import gigpo
from agentrl_components.update.advantages.group_relative import group_relative
from agentrl_components.update.advantages.leave_one_out import leave_one_out
from agentrl_components.update.advantages.reinforce_pp import reinforce_pp, reinforce_pp_baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """How an algorithm computes advantages and what it needs for that."""

    estimate: Callable[[Sequence[EpisodeView], Algorithm], Advantages]
    needs_group: bool = False
    """Its baseline is the other episodes of the same task."""
    needs_critic: bool = False
    """`EpisodeView.values` must be there, and `Advantages.returns` will be."""


def _ppo(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    level = turn_level if algorithm.gae.level == "turn" else token_level
    return level(episodes, gamma=algorithm.gae.gamma, lam=algorithm.gae.lam)


def _group_relative(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    return group_relative(episodes, scale_by_std=algorithm.scale_by_std)


def _gigpo(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    return gigpo(episodes, weight=algorithm.gigpo_weight, scale_by_std=algorithm.scale_by_std)


ESTIMATORS: Mapping[AlgorithmName, Estimator] = MappingProxyType(
    {
        "ppo": Estimator(estimate=_ppo, needs_critic=True),
        "grpo": Estimator(estimate=_group_relative, needs_group=True),
        "gspo": Estimator(estimate=_group_relative, needs_group=True),
        "gigpo": Estimator(estimate=_gigpo, needs_group=True),
        "rloo": Estimator(estimate=lambda episodes, _: leave_one_out(episodes), needs_group=True),
        "reinforce++": Estimator(estimate=lambda episodes, _: reinforce_pp(episodes)),
        "reinforce++-baseline": Estimator(
            estimate=lambda episodes, _: reinforce_pp_baseline(episodes), needs_group=True
        ),
    }
)
"""By the manifest's `algorithm.name`."""

__all__ = ["ESTIMATORS", "Advantages", "EpisodeView", "Estimator", "zero_variance"]
