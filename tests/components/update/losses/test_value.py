from __future__ import annotations

import pytest
import torch

from agentrl_components.update.losses.value import clipped_value_loss


def test_the_value_loss_is_the_larger_of_the_unclipped_and_the_clipped_one():
    # old 0, return 1, clip .5
    # V = .25: (.75)^2 / 2 = .28125, unclipped
    # V = 1.0: free 0, clipped (.5 - 1)^2 / 2 = .125: not rewarded for going beyond .5
    # V = -2.: free 9 / 2 = 4.5, clipped (-.5 - 1)^2 / 2 = 1.125: the larger
    values = torch.tensor([0.25, 1.0, -2.0], requires_grad=True)
    loss = clipped_value_loss(values, torch.zeros(3), torch.ones(3), value_clip=0.5)
    assert loss.tolist() == pytest.approx([0.28125, 0.125, 4.5])
    loss.sum().backward()
    # V - G = -.75; clipped: 0; V - G = -3
    assert values.grad.tolist() == pytest.approx([-0.75, 0.0, -3.0])
