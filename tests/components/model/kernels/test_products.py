"""Products of small matrices."""

import numpy as np
import pytest

from agentrl_components.model.kernels.products import multiply

SHAPES = [(1, 1, 1), (1, 3, 64), (1, 5, 112), (2, 7, 32), (3, 4, 15), (4, 2, 16), (7, 33, 50)]
"""(rows, terms, columns), for which each kind of tile and what remains beside it are needed."""


def matrices(rows, terms, columns, seed=0):
    draw = np.random.default_rng(seed)
    shapes = ((rows, terms), (terms, columns), (rows, columns))
    return [draw.standard_normal(shape, dtype=np.float32) for shape in shapes]


def test_a_product_replaces_what_is_there_or_is_added_to_it():
    """Row (1, 2) times ((3, 4), (5, 6)) is (13, 16)."""
    a, b = np.array([[1, 2]], np.float32), np.array([[3, 4], [5, 6]], np.float32)
    c = np.array([[100, 200]], np.float32)
    multiply(a, b, c, True)
    assert c.tolist() == [[113, 216]]
    multiply(a, b, c, False)
    assert c.tolist() == [[13, 16]]


@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_all_shapes_are_right_to_rounding(shape, add):
    a, b, c = matrices(*shape)
    expected = a.astype(float) @ b + (c if add else 0)
    multiply(a, b, c, add)
    assert c == pytest.approx(expected, abs=1e-5)


def test_the_first_factor_may_be_transposed_and_all_may_be_parts_of_larger_matrices():
    a, b, c = matrices(6, 9, 40)
    expected = a[:, 2:].T.astype(float) @ b[:6, :33]
    beside = c[:, 33:].copy()
    wide = np.zeros((9, 40), np.float32)
    multiply(a[:, 2:].T, b[:6, :33], wide[:7, :33], False)
    assert wide[:7, :33] == pytest.approx(expected, abs=1e-5)
    assert not wide[7:].any()
    assert not wide[:, 33:].any()
    assert (c[:, 33:] == beside).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_for_any_number_of_rows(shape):
    """Also where the number of rows decides which tiles are used."""
    a, b, c = matrices(*shape)
    multiply(a, b, c, False)
    for row in range(len(a)):
        alone = np.empty((1, shape[2]), np.float32)
        multiply(a[row : row + 1], b, alone, False)
        assert (alone[0] == c[row]).all()
