"""Advantage estimators by name, as `spec.algorithms` refers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from agentrl_components.spec.algorithms import EstimatorName
from agentrl_components.spec.fields.algorithm import Algorithm
from agentrl_components.update.advantages.episodes import Advantages, EpisodeView
from agentrl_components.update.advantages.gae import token_level, turn_level
from agentrl_components.update.advantages.gigpo import gigpo
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
"""By `AlgorithmTraits.estimator`."""


def estimate_advantages(episodes: Sequence[EpisodeView], algorithm: Algorithm) -> Advantages:
    """Advantages of `episodes` by the estimator of `algorithm`.

    Raises:
        ValueError: the algorithm needs a critic and an episode has no values.
    """
    return ESTIMATORS[algorithm.traits.estimator](episodes, algorithm)
