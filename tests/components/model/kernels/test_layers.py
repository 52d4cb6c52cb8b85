"""Compiled functions of single rows."""

import math
from types import FunctionType

import numpy as np
import pytest

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.layers import (
    apply_gate,
    exponentiate,
    normalise,
    rotate,
)


def floats(*values):
    return np.array(values, dtype=np.float32)


def test_exponentials_are_right_to_the_rounding_of_float32():
    x = np.linspace(-87.0, 87.0, 100_003).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    exponentiate(x, np.empty(len(x), dtype=np.int32))
    assert np.abs(x / exact - 1).max() < 2e-7


def test_the_exponential_of_minus_infinity_is_negligible_and_not_undefined():
    x = floats(-math.inf, -1e30, -88.0, 0.0)
    exponentiate(x, np.empty(4, dtype=np.int32))
    assert x[3] == 1.0
    assert (x[:3] < 2e-38).all()


def test_a_row_is_divided_by_its_root_mean_square():
    x, out = floats(3, 4)[None], floats(0, 0)[None]
    normalise(x, floats(1, 2), 0.0, out)
    # The root of (9 + 16) / 2 is 3.5355.
    assert out[0] == pytest.approx([3 / 3.5355339, 2 * 4 / 3.5355339])


def test_a_gate_lets_large_numbers_pass_and_none_of_the_very_negative():
    gate, up = floats(0.0, 1.0, 100.0, -200.0)[None], floats(5.0, 2.0, 3.0, 3.0)[None]
    apply_gate(gate, up)
    assert up[0] == pytest.approx([0.0, 2 / (1 + math.exp(-1)), 300.0, 0.0], abs=1e-6)


def test_heads_are_rotated_by_the_angles_of_their_position():
    """Numbers 1 and 3 of four are a pair, as are 2 and 4: a quarter turn, and none."""
    out = floats(0, 0, 0, 0)
    rotate(floats(1, 2, 3, 4), floats(0, 1), floats(1, 0), np.float32(2), out)
    assert out.tolist() == [-6, 4, 2, 8]


def test_functions_are_compiled_where_no_folder_can_hold_the_machine_code():
    def double(x):
        return 2 * x

    # Numba has no place for the code of a function that no file defines.
    moved = FunctionType(double.__code__.replace(co_filename="<none>"), {}, "double")
    assert compiled(FUSED)(moved)(4) == 8
