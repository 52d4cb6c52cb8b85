"""Linear layers with packed weights."""

import numpy as np
import pytest
import torch

from agentrl_components.engines.torch_engine.kernels.linear import empty, outputs, pack, project


def projected(weight, bias, x):
    linear = empty(weight.shape[1], weight.shape[0])
    pack(torch.tensor(weight), None if bias is None else torch.tensor(bias), linear)
    out = np.full((len(x), outputs(linear)), np.nan, np.float32)
    project(np.array(x, np.float32), linear, out)
    return out


def test_an_output_is_the_bias_and_the_weighted_sum_of_the_inputs():
    weight = [[1.0, 2.0], [0.0, 3.0], [4.0, 0.0]]
    out = projected(
        np.array(weight), np.array([10.0, 20.0, 30.0]), [[1, 1], [1, 0], [0, 1], [0, 0]]
    )
    assert out[:, :3].tolist() == [[13, 23, 34], [11, 20, 34], [12, 23, 30], [10, 20, 30]]
    assert not out[:, 3:].any()


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("features", [1, 16, 17, 48])
def test_layers_of_all_widths_are_right_to_rounding(features, biased):
    draw = np.random.default_rng(features)
    weight, x = draw.standard_normal((features, 9)), draw.standard_normal((8, 9))
    bias = draw.standard_normal(features) if biased else None
    expected = x @ weight.T + (0 if bias is None else bias)
    assert projected(weight, bias, x)[:, :features] == pytest.approx(expected, abs=1e-5)


def test_parameters_replace_those_that_were_packed_before():
    linear = empty(1, 2)
    for factor in (1.0, 2.0):
        pack(torch.tensor([[factor], [factor]]), torch.tensor([factor, factor]), linear)
    out = np.empty((4, outputs(linear)), np.float32)
    project(np.ones((4, 1), np.float32), linear, out)
    assert out[0, :2].tolist() == [4, 4]
