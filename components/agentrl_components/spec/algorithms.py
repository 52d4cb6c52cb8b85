"""The policy-gradient algorithms and what each is made of.

One entry per algorithm. The rules of the manifest read `needs_group` and `needs_critic`; the
learner looks up the estimator and the surrogate by name (`update.advantages.registry`,
`update.losses.registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

AlgorithmName = Literal[
    "ppo", "grpo", "rloo", "reinforce++", "reinforce++-baseline", "gspo", "gigpo"
]
"""Values of `algorithm.name` in a manifest."""

EstimatorName = Literal[
    "gae",
    "group-relative",
    "gigpo",
    "leave-one-out",
    "batch-normalised",
    "batch-normalised-baseline",
]
"""Names of advantage estimators."""

NormalisationName = Literal["token", "sequence", "constant"]
"""Names of reductions of a loss per token."""

SurrogateName = Literal["token", "sequence"]
"""Names of clipped surrogates: one probability ratio per token, or one per episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmTraits:
    """The parts of an algorithm and what they need."""

    estimator: EstimatorName
    """Computes advantages."""
    surrogate: SurrogateName = "token"
    """Computes the policy loss."""
    needs_group: bool = False
    """The baseline is computed from the other episodes of the same task."""
    needs_critic: bool = False
    """Advantages are computed from a value model's estimates."""
    clip_low: float = 0.2
    """Default of `algorithm.clipLow`."""
    clip_high: float = 0.28
    """Default of `algorithm.clipHigh`."""
    normalise: NormalisationName = "token"
    """Meaning of `algorithm.normalise: auto`."""
    drop_zero_variance: bool = True
    """Default of `algorithm.dropZeroVariance`, if the baseline is the group."""


ALGORITHMS: Mapping[AlgorithmName, AlgorithmTraits] = MappingProxyType(
    {
        "ppo": AlgorithmTraits(estimator="gae", needs_critic=True),
        "grpo": AlgorithmTraits(estimator="group-relative", needs_group=True),
        "gspo": AlgorithmTraits(
            estimator="group-relative",
            surrogate="sequence",
            needs_group=True,
            clip_low=3e-4,
            clip_high=4e-4,
            normalise="sequence",
        ),
        "gigpo": AlgorithmTraits(
            estimator="gigpo",
            needs_group=True,
            # Turns have advantages in groups that always succeed, but not in those that always
            # fail. Without the latter in the entropy bonus, the entropy collapses.
            drop_zero_variance=False,
        ),
        "rloo": AlgorithmTraits(estimator="leave-one-out", needs_group=True),
        "reinforce++": AlgorithmTraits(estimator="batch-normalised"),
        "reinforce++-baseline": AlgorithmTraits(
            estimator="batch-normalised-baseline", needs_group=True
        ),
    }
)
"""Keyed by the manifest's `algorithm.name`."""


def algorithms_with(condition: Callable[[AlgorithmTraits], bool]) -> tuple[AlgorithmName, ...]:
    """Names of the algorithms whose traits meet `condition`, sorted."""
    return tuple(sorted(name for name, traits in ALGORITHMS.items() if condition(traits)))
