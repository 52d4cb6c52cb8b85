"""Gradients of compiled functions, by hand."""

import math

import numpy as np
import pytest

from agentrl_components.model.kernels.gradients import gate_gradients, normalise_gradients


def row(*values):
    return np.array([values], dtype=np.float32)


def test_a_normalised_row_has_no_gradient_along_itself():
    """Row (3, 4) is divided by the root of 12.5, with weights 1 and 2. The gradient of the first
    output is (1, 0) / 3.5355 without its part along the row: (1, 0) - 3 (3, 4) / 25."""
    dx, dweight = row(0, 0), np.array([10, 20], dtype=np.float32)
    weight = np.array([1, 2], dtype=np.float32)
    normalise_gradients(row(1, 0), row(3, 4), weight, np.float32(0), dx, dweight)
    root = math.sqrt(12.5)
    assert dx[0] == pytest.approx([(1 - 9 / 25) / root, -12 / 25 / root])
    # Weights have the gradient of their outputs times the normalised row, added to what was there.
    assert dweight == pytest.approx([10 + 3 / root, 20])


def test_the_gradients_of_weights_are_sums_over_rows():
    rows = np.array([[3, 4], [3, 4], [3, 4]], dtype=np.float32)
    dx, dweight = np.empty_like(rows), np.zeros(2, dtype=np.float32)
    dout = np.array([[1, 0], [1, 1], [0, 2]], dtype=np.float32)
    normalise_gradients(dout, rows, np.ones(2, dtype=np.float32), np.float32(0), dx, dweight)
    root = math.sqrt(12.5)
    assert dweight == pytest.approx([2 * 3 / root, 3 * 4 / root])


def test_a_gate_at_zero_passes_half_of_what_is_above_it_to_the_gate():
    """silu(0) = 0 with slope 1/2; silu(1) = 0.7311 with slope 0.7311 + 0.1966."""
    dgate, dup = row(0, 0), row(0, 0)
    gate_gradients(row(1, 2), row(0, 1), row(5, 3), dgate, dup)
    share = 1 / (1 + math.exp(-1))
    assert dup[0] == pytest.approx([0, 2 * share])
    assert dgate[0] == pytest.approx([5 / 2, 2 * 3 * (share + share * (1 - share))])


def test_an_undefined_gate_has_undefined_gradients():
    """A policy that has diverged must be seen in its metrics."""
    dgate, dup = row(0), row(0)
    gate_gradients(row(1), row(math.nan), row(1), dgate, dup)
    assert math.isnan(dgate[0, 0])
    assert math.isnan(dup[0, 0])
