"""Objectives: the terms of the policy's loss."""

import numpy as np
import pytest
import torch
from learner_bench import GROUP, Bench, spec

from agentrl_components.model.sources import make_tiny
from agentrl_components.update.logprobs import score
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import PolicyGradient
from agentrl_components.update.packing import example, pack
from agentrl_envs.environments.corridor import CorridorTasks


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    words = CorridorTasks().vocabulary()
    return make_tiny(spec().model, words, 0, tmp_path_factory.mktemp("tiny"))


def policy_loss(bench, **log_ratios):
    """The loss of one episode with advantage 0 whose columns are the policy's log-probabilities
    minus `log_ratios`."""
    now_S = bench.logprobs(GROUP[0]).numpy()
    columns = {name: (now_S - nats).astype(np.float32) for name, nats in log_ratios.items()}
    columns["advantage"] = np.zeros_like(now_S)
    objective = PolicyGradient(
        algorithm=bench.spec.algorithm,
        denominators=Denominators(tokens=len(now_S), episodes=1, token_limit=64),
        chunk=1024,
        unmoved=False,
    )
    return objective(bench.worker.decoder, pack([example(GROUP[0], columns)], [0]))


@pytest.mark.parametrize(("log_ratio", "term"), [(0.0, 0.01), (0.5, 0.016487), (12.0, 0.02)])
def test_the_ratio_that_weights_the_kl_penalty_is_bounded(folder, log_ratio, term):
    """0.001 x ratio x 10 nats. An unbounded ratio of e^12 made it 1,627."""
    algorithm = {"kl": {"coefficient": 0.001}, "importanceSampling": {"mode": "off"}}
    with Bench(folder, algorithm=algorithm) as bench:
        loss, sums = policy_loss(bench, sampler=log_ratio, reference=12.0)
    assert float(loss.detach()) == pytest.approx(term, rel=1e-3)
    assert sums["kl"] == pytest.approx(2 * 10.0)


def test_without_an_entropy_bonus_the_entropy_is_measured_without_gradient(folder):
    with Bench(folder) as bench:
        row = pack([example(GROUP[0], {})], [0])
        _, measured = score(bench.worker.decoder, row, 1024)
        _, differentiated = score(bench.worker.decoder, row, 1024, entropy_gradient=True)
        loss, sums = policy_loss(bench, sampler=0.0)
        loss.backward()
    assert not measured.requires_grad
    assert differentiated.requires_grad
    assert torch.equal(measured, differentiated.detach())
    assert sums["entropy"] == pytest.approx(float(measured.sum()))
