"""Intervals of means over a few seeds."""

from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def seeds(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("report.seeds")


def test_the_interval_of_a_mean_is_that_of_students_t(seeds):
    # Mean 3, deviation sqrt(2.5), t of four degrees of freedom 2.776445:
    # 3 -+ 2.776445 * 1.581139 / 2.236068 = 3 -+ 1.963243
    interval = seeds.mean_interval([1, 2, 3, 4, 5])
    assert (interval.estimate, interval.n) == (3, 5)
    assert (interval.low, interval.high) == pytest.approx((1.036757, 4.963243), abs=1e-6)


def test_a_difference_is_paired_by_seed(seeds):
    # Differences 1, 2, 3: mean 2, deviation 1, t 4.302653: 2 -+ 4.302653 / sqrt(3) = 2 -+ 2.484138
    interval = seeds.paired_interval([11, 22, 33], [10, 20, 30])
    assert (interval.low, interval.high) == pytest.approx((-0.484138, 4.484138), abs=1e-6)
    with pytest.raises(ValueError, match="shorter"):
        seeds.paired_interval([1, 2], [1])


def test_one_value_has_no_interval(seeds):
    with pytest.raises(ValueError, match="fewer than two"):
        seeds.mean_interval([1])
