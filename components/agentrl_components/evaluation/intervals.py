"""Confidence intervals and pass@k.

All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean, variance

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with the bounds of its confidence interval."""

    estimate: float
    low: float
    high: float
    n: int
    """Number of observations; of pairs for paired samples."""


def wilson(successes: int, n: int, *, confidence: float = 0.95) -> Interval:
    """The score interval of a proportion (Wilson, JASA 22, 1927), which is valid for few trials and
    at 0 and n successes.

        (p + z^2/2n -+ z * sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)

    Raises ValueError unless 0 <= successes <= n and n >= 1."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials are not a proportion")
    return _score(successes / n, n, n, confidence)


def clustered_wilson(results: Sequence[tuple[int, int]], *, confidence: float = 0.95) -> Interval:
    """The score interval of the mean share of successes of tasks, each given as (tries, successes).

    Tries of one task are correlated, so Wilson's formula gets the effective number of trials: that
    of independent trials whose mean has the variance observed between tasks, and fewer for few
    tasks (Korn and Graubard, Survey Methodology 24, 1998).

        p (1 - p) / variance of the mean * (z / t)^2, t with as many degrees of freedom as tasks - 1

    It is at least the number of tasks, as if the tries of a task were copies of each other, and at
    most what it is if they are independent. Without a difference between tasks at p = 0 or 1
    nothing tells the two apart, and it is the number of tasks. With one try a task this is
    `wilson`. Raises ValueError if there are no tasks or the counts are not proportions."""
    if not results or any(n < 1 or not 0 <= successes <= n for n, successes in results):
        raise ValueError(f"{results} are not successes of tasks")
    tasks, shares = len(results), [successes / n for n, successes in results]
    share, trials = fmean(shares), float(tasks)
    if 0 < share < 1 and tasks > 1:
        independent = tasks * tasks / sum(1 / n for n, _ in results)
        spread = variance(shares) / tasks
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        few = (z / _student(z, tasks - 1)) ** 2
        observed = share * (1 - share) / spread * few if spread else independent
        trials = min(max(observed, trials), independent)
    return _score(share, trials, tasks, confidence)


def _student(z: float, freedom: int) -> float:
    """The quantile of Student's t at which the normal distribution has its quantile z (Abramowitz
    and Stegun, 26.7.5; 3 % too small at 2 degrees of freedom, a quarter at 1)."""
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / float(freedom) ** power for power, term in enumerate(terms))


def _score(share: float, trials: float, n: int, confidence: float) -> Interval:
    """Wilson's interval of a share of `trials` trials, from `n` observations."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    spread = z * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    middle, scale = share + z * z / (2 * trials), 1 + z * z / trials
    # There the formula is exactly 0 or 1; rounding must not exclude the estimate.
    low = 0.0 if share == 0 else (middle - spread) / scale
    high = 1.0 if share == 1 else (middle + spread) / scale
    return Interval(estimate=share, low=low, high=high, n=n)


def pass_at_k(tries: int, successes: int, k: int) -> float:
    """The probability that at least one of k tries solves the task, estimated from `tries` >= k.

        1 - C(n - c, k) / C(n, k)

    The unbiased estimator of Chen et al., arXiv 2107.03374, equation 1, computed as a product that
    does not overflow. Raises ValueError unless 0 <= successes <= tries and 1 <= k <= tries."""
    if not 1 <= k <= tries or not 0 <= successes <= tries:
        raise ValueError(f"pass@{k} is undefined for {successes} successes in {tries} tries")
    if tries - successes < k:
        return 1.0
    drawn = np.arange(tries - successes + 1, tries + 1, dtype=np.float64)
    return float(1.0 - np.prod(1.0 - k / drawn))


def mean_pass_at_k(results: Sequence[tuple[int, int]], k: int) -> float:
    """The mean of `pass_at_k` over tasks, each given as (tries, successes).

    Raises ValueError if there are no tasks or a task has fewer than k tries."""
    if not results:
        raise ValueError("pass@k needs at least one task")
    return float(np.mean([pass_at_k(tries, successes, k) for tries, successes in results]))
