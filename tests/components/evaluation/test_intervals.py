from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl_components.evaluation.intervals import (
    clustered_wilson,
    mean_pass_at_k,
    pass_at_k,
    wilson,
)


def test_the_wilson_interval_equals_a_hand_computed_one():
    # p = .5, n = 10, z = 1.959964: (.5 + .1920729 -+ 1.959964 sqrt(.025 + .00960365)) / 1.3841459
    # = (.6920729 -+ .3645930) / 1.3841459 = .2365931, .7634069
    interval = wilson(5, 10)
    assert (interval.low, interval.high) == pytest.approx((0.2365931, 0.7634069), abs=1e-6)
    assert (interval.estimate, interval.n) == (0.5, 10)


def test_wilson_intervals_reproduce_the_table_of_the_pilot_study():
    # 329 of 400: 82.2 [78.2, 85.7]; 81 of 400: 20.2 [16.6, 24.5]
    trained, random = wilson(329, 400), wilson(81, 400)
    assert (round(trained.low, 3), round(trained.high, 3)) == (0.782, 0.857)
    assert (round(random.low, 3), round(random.high, 3)) == (0.166, 0.245)


def test_the_wilson_interval_of_no_or_only_successes_ends_at_0_or_1():
    # 0 of 10: high = (2 * 1.920729 / 10) / 1.3841459 = .2775328; 10 of 10 mirrors it
    assert wilson(0, 10).low == 0.0
    assert wilson(0, 10).high == pytest.approx(0.2775328, abs=1e-6)
    assert (wilson(10, 10).low, wilson(10, 10).high) == pytest.approx((0.7224672, 1.0), abs=1e-6)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_counts_that_are_not_a_proportion_are_rejected(successes, n):
    with pytest.raises(ValueError, match="are not a proportion"):
        wilson(successes, n)


@given(n=st.integers(1, 500), data=st.data())
def test_the_wilson_interval_contains_the_estimate_and_is_within_0_and_1(n, data):
    interval = wilson(data.draw(st.integers(0, n)), n)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_with_one_try_a_task_the_interval_of_tasks_is_wilsons(solved):
    assert clustered_wilson([(1, int(one)) for one in solved]) == wilson(sum(solved), len(solved))


@pytest.mark.parametrize(
    ("results", "trials"),
    [
        ([(2, 0)] * 30, (0, 30)),  # nothing solved: as wide as with one try, not of zero width
        ([(4, 4)] * 5, (5, 5)),
        ([(3, 0)], (0, 1)),
        ([(2, 2)] * 15 + [(2, 0)] * 15, (15, 30)),  # second tries repeat the first: 30 trials
        ([(4, 1)] * 2, (2, 8)),  # tasks differ less than independent tries would: 8 trials
    ],
)
def test_tries_of_a_task_count_at_least_as_one_trial_and_at_most_as_independent_ones(
    results, trials
):
    found, expected = clustered_wilson(results), wilson(*trials)
    assert (found.low, found.estimate, found.high) == pytest.approx(
        (expected.low, expected.estimate, expected.high)
    )
    assert found.n == len(results)


def test_tasks_with_fewer_tries_than_others_count_as_much_and_have_more_chance_in_them():
    # The mean of two shares of 2 and of 4 tries has the variance of 4 / (1 / 2 + 1 / 4) = 5.3333
    # independent trials, not of 6. At .5 the interval is .5 -+ 1.959964 / 2 / sqrt(n + 3.841459).
    interval = clustered_wilson([(2, 1), (4, 2)])
    assert (interval.low, interval.high) == pytest.approx((0.17647, 0.82353), abs=1e-5)


def test_between_them_the_number_of_trials_follows_from_the_variance_between_tasks():
    # Shares 1, 1, 0, 0 and six times .5: variance 1 / 9, of the mean 1 / 90; .25 * 90 = 22.5.
    # t with 9 degrees of freedom is 2.262157: 22.5 * (1.959964 / 2.262157)^2 = 16.8902 trials.
    # (.5 + 1.920729 / n -+ 1.959964 sqrt(.25 / n + .9603647 / n^2)) / (1 + 3.841459 / n)
    results = [(2, 2)] * 2 + [(2, 0)] * 2 + [(2, 1)] * 6
    interval = clustered_wilson(results)
    assert (interval.estimate, interval.n) == (0.5, 10)
    assert (interval.low, interval.high) == pytest.approx((0.28477, 0.71523), abs=2e-4)


@given(
    st.lists(
        st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))),
        min_size=1,
        max_size=12,
    )
)
def test_the_interval_of_tasks_contains_the_estimate_and_has_a_width(results):
    interval = clustered_wilson(results)
    assert 0 <= interval.low <= interval.estimate <= interval.high <= 1
    assert interval.high - interval.low > 0.02


@pytest.mark.parametrize("results", [[], [(0, 0)], [(2, 3)]])
def test_results_that_are_not_tries_of_tasks_are_rejected(results):
    with pytest.raises(ValueError, match="are not successes of tasks"):
        clustered_wilson(results)


def test_pass_at_k_equals_hand_computed_values():
    # n 4, c 1, k 2: 1 - C(3, 2) / C(4, 2) = 1 - 3 / 6. k = 1 is the share. n - c < k: certain.
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(4, 1, 1) == pytest.approx(0.25)
    assert pass_at_k(4, 3, 2) == 1.0
    assert pass_at_k(4, 0, 4) == 0.0


@given(tries=st.integers(1, 7), data=st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_success(tries, data):
    successes = data.draw(st.integers(0, tries))
    k = data.draw(st.integers(1, tries))
    subsets = list(combinations([True] * successes + [False] * (tries - successes), k))
    share = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at_k(tries, successes, k) == pytest.approx(share)


def test_mean_pass_at_k_counts_only_solved_episodes():
    # Upstream counts any positive reward as a pass.
    # Tasks with 1 of 4, 0 of 4 and 4 of 4 solved: (.5 + 0 + 1) / 3 = .5
    assert mean_pass_at_k([(4, 1), (4, 0), (4, 4)], 2) == pytest.approx(0.5)


def test_pass_at_k_is_rejected_if_k_exceeds_the_tries():
    with pytest.raises(ValueError, match="pass@5 is undefined for 1 successes in 4 tries"):
        pass_at_k(4, 1, 5)
    with pytest.raises(ValueError, match="needs at least one task"):
        mean_pass_at_k([], 1)
