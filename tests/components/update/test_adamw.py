import subprocess
import sys

import pytest
import torch

from agentrl_components.update.adamw import AdamW


def gradients():
    draws = torch.Generator().manual_seed(0)
    return [torch.randn(5, generator=draws) for _ in range(4)]


def test_a_first_step_moves_each_weight_by_the_learning_rate_against_its_gradient():
    vector = torch.tensor([1.0, -2.0])

    AdamW(vector, beta2=0.999, weight_decay=0.0).step(torch.tensor([0.5, -4.0]), 0.1)

    # m / sqrt(v) = g / |g|, whatever the size of g: 1 - 0.1 and -2 + 0.1
    assert vector.tolist() == pytest.approx([0.9, -1.9], abs=1e-6)


def test_weights_decay_apart_from_the_gradient():
    vector = torch.tensor([2.0])

    AdamW(vector, beta2=0.999, weight_decay=0.5).step(torch.tensor([0.0]), 0.1)

    assert vector.tolist() == pytest.approx([2.0 * (1 - 0.1 * 0.5)])


def test_its_bits_are_those_of_torchs_class():
    ours, theirs = torch.ones(5), torch.ones(5)
    optimizer = AdamW(ours, beta2=0.99, weight_decay=0.01)
    reference = torch.optim.AdamW(
        [theirs], lr=0.01, betas=(0.9, 0.99), weight_decay=0.01, foreach=False
    )

    for gradient in gradients():
        optimizer.step(gradient, 0.01)
        theirs.grad = gradient.clone()
        reference.step()

    assert torch.equal(ours, theirs)


def test_it_goes_on_from_its_state_as_if_never_interrupted():
    whole, halves = torch.ones(5), torch.ones(5)
    undisturbed = AdamW(whole, beta2=0.99, weight_decay=0.01)
    for gradient in gradients():
        undisturbed.step(gradient, 0.01)
    first = AdamW(halves, beta2=0.99, weight_decay=0.01)
    for gradient in gradients()[:2]:
        first.step(gradient, 0.01)

    second = AdamW(halves, beta2=0.99, weight_decay=0.01)
    second.load_state_dict(first.state_dict())
    for gradient in gradients()[2:]:
        second.step(gradient, 0.01)

    assert torch.equal(halves, whole)
    assert second.steps == 4
    second.clear()
    assert second.steps == 0
    assert second.state_dict() == {"state": {}, "param_groups": []}


def test_a_step_does_not_load_torchs_compiler():
    program = (
        "import sys, torch; from agentrl_components.update.adamw import AdamW; "
        "AdamW(torch.ones(2), beta2=0.9, weight_decay=0.0).step(torch.ones(2), 0.1); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
