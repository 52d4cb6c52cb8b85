"""Advantage estimators by name, as `spec.algorithms` refers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from agentrl_components.spec.algorithms import EstimatorName
from agentrl_components.spec.fields.algorithm import Algorithm
from agentrl_components.update.advantages.episodes import (
    Advantages,
    EpisodeView,
    zero_variance,
)
from agentrl_components.update.advantages.gae import token_level, turn_level
from agentrl_components.update.advantages.gigpo import gigpo, groups_with_step_signal
from agentrl_components.update.advantages.group_relative import group_relative
from agentrl_components.update.advantages.leave_one_out import leave_one_out
from agentrl_components.update.advantages.reinforce_pp import reinforce_pp, reinforce_pp_baseline

Estimator = Callable[[Sequence[EpisodeView], Algorithm], Advantages]
"""Advantages of episodes, under the settings of the manifest's `algorithm`."""


def _gae(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    level = turn_level if algorithm.gae.level == "turn" else token_level
    return level(episodes, gamma=algorithm.gae.gamma, lam=algorithm.gae.lam)


def _group_relative(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    return group_relative(episodes, scale_by_std=algorithm.scale_by_std)


def _gigpo(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    return gigpo(episodes, weight=algorithm.gigpo_weight, scale_by_std=algorithm.scale_by_std)


ESTIMATORS: Mapping[EstimatorName, Estimator] = MappingProxyType(
    {
        "gae": _gae,
        "group-relative": _group_relative,
        "gigpo": _gigpo,
        "leave-one-out": lambda episodes, _: leave_one_out(episodes),
        "batch-normalised": lambda episodes, _: reinforce_pp(episodes),
        "batch-normalised-baseline": lambda episodes, _: reinforce_pp_baseline(episodes),
    }
)
"""Keyed by `AlgorithmTraits.estimator`."""


def estimate_advantages(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    """Advantages of `episodes` by the estimator of `algorithm`.

    Raises:
        ValueError: the algorithm needs a critic and an episode has no values.
    """
    return ESTIMATORS[algorithm.traits.estimator](episodes, algorithm)


def groups_without_signal(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> frozenset[int]:
    """Groups in which all advantages are 0, for an algorithm whose baseline is the group: rewards
    do not differ, and for `gigpo` neither do returns from a common state."""
    groups = zero_variance(episodes)
    if algorithm.traits.estimator == "gigpo" and algorithm.gigpo_weight > 0:
        groups -= groups_with_step_signal(episodes)
    return groups
