"""Linear layers with packed weights, for float32 on CPU.

A product of torch costs microseconds beside its work, and copies the weights into a form that its
kernel reads in order, which a pass of few tokens does not repay. Here the copy is made once for all
passes with the same weights. Every output is a sum in the order of the inputs that depends on
nothing but its own row.

Legend: M rows, a multiple of `ROWS`, E inputs, F outputs, J = `COLUMNS` outputs of a panel, P
panels, 1E the bias and the inputs.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrl_components.model.kernels.compiled import FUSED, compiled
from agentrl_components.model.kernels.products import COLUMNS, LARGEST, ROWS

Panels = NDArray[np.float32]
"""The parameters of a linear layer [P, 1E, J]: of `COLUMNS` outputs each, the biases and then the
weights by input. They are 0 for outputs after the last one."""


def empty(inputs: int, outputs: int) -> Panels:
    """Memory for a layer's parameters, which are 0."""
    return np.zeros((-(-outputs // COLUMNS), 1 + inputs, COLUMNS), np.float32)


def pack(weight_FE: Tensor, bias_F: Tensor | None, into: Panels) -> None:
    """Copy the parameters of a layer."""
    panels, (outputs, inputs) = torch.from_numpy(into), weight_FE.shape
    whole = outputs // COLUMNS
    by_panel = weight_FE[: whole * COLUMNS].view(whole, COLUMNS, inputs)
    panels[:whole, 1:].copy_(by_panel.transpose(1, 2))
    rest = outputs - whole * COLUMNS
    if rest:
        panels[whole, 1:, :rest].copy_(weight_FE[whole * COLUMNS :].T)
    if bias_F is not None:
        panels[:whole, 0].copy_(bias_F[: whole * COLUMNS].view(whole, COLUMNS))
        if rest:
            panels[whole, 0, :rest].copy_(bias_F[whole * COLUMNS :])


@compiled(FUSED)
def outputs(linear: Panels) -> int:
    """Outputs of a layer's panels."""
    return len(linear) * COLUMNS


@compiled(FUSED)
def project(x_ME: NDArray[np.float32], linear: Panels, out_MF: NDArray[np.float32]) -> None:
    """Set the first rows of `out_MF` to the layer's outputs for `x_ME`."""
    for panel in range(len(linear)):
        for m in range(0, len(x_ME), ROWS):
            for i in range(ROWS):
                for j in range(COLUMNS):
                    out_MF[m + i, panel * COLUMNS + j] = linear[panel, 0, j]
            LARGEST(x_ME[m:], linear[panel, 1:], out_MF[m:, panel * COLUMNS :], True)
