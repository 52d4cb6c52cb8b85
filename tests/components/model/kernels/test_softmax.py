"""Softmax of a row of scores."""

import math

import numpy as np
import pytest

from agentrl_components.model.kernels.softmax import softmax


def row(*scores, length=48):
    """Scores, and after them what an earlier token left."""
    found = np.full(length, 1e9, dtype=np.float32)
    found[: len(scores)] = scores
    return found


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_softmax_gives_shares_and_ignores_what_comes_after_the_keys(count):
    """Of weights 1, 3, 3, ..., whose sum is 1 + 3 (count - 1)."""
    scores = row(0.0, *[math.log(3.0)] * (count - 1))
    log_sum = softmax(scores, count, np.empty(48, dtype=np.int32))
    total = 1 + 3 * (count - 1)
    assert scores[:count] == pytest.approx([1 / total] + [3 / total] * (count - 1), rel=1e-6)
    assert log_sum == pytest.approx(math.log(total), abs=1e-6)


def test_the_last_vector_is_filled_with_zeros():
    scores = row(1.0, 2.0, 3.0)
    softmax(scores, 3, np.empty(48, dtype=np.int32))
    assert (scores[3:16] == 0).all()
    assert (scores[16:] == 1e9).all()


def test_large_scores_do_not_overflow():
    scores = row(1000.0, 1000.0)
    assert softmax(scores, 2, np.empty(48, dtype=np.int32)) == pytest.approx(1000 + math.log(2))
    assert scores[:2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("place", [0, 5, 20])
def test_an_undefined_score_makes_the_row_undefined(place):
    """A policy that has diverged must be seen in its metrics."""
    scores = row(*[1.0] * 21)
    scores[place] = math.nan
    assert math.isnan(softmax(scores, 21, np.empty(48, dtype=np.int32)))
    assert np.isnan(scores[:21]).all()
