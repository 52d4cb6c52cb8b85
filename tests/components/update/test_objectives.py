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


# Two tokens whose ratios of trainer and sampler are e^0.5 = 1.6487 and e^-1 = 0.3679, and whose
# penalty is 10 nats each: 0.001 x 10 x mean weight.
@pytest.mark.parametrize(
    ("mode", "cap", "weights"),
    [
        ("off", 2.0, (1.0, 1.0)),
        ("truncate", 2.0, (1.6487, 0.3679)),
        ("truncate", 1.5, (1.5, 0.3679)),
        ("mask", 2.0, (1.6487, 0.0)),
        ("mask", 1.5, (0.0, 0.0)),
    ],
)
def test_the_kl_penalty_is_weighted_as_the_loss_is(folder, mode, cap, weights):
    algorithm = {"kl": {"coefficient": 0.001}, "importanceSampling": {"mode": mode, "cap": cap}}
    lag = np.array([0.5, -1.0])
    with Bench(folder, algorithm=algorithm) as bench:
        loss, sums = policy_loss(bench, old=0.0, sampler=lag, reference=12.0)
    assert float(loss.detach()) == pytest.approx(0.01 * sum(weights) / 2, rel=1e-3, abs=1e-9)
    assert sums["kl"] == pytest.approx(2 * 10.0)


def test_the_kl_penalty_of_gspo_is_weighted_by_the_tokens_own_ratio(folder):
    """Ratios of policy and old policy e^0.5 and e^-1; that of the episode is e^-0.25."""
    algorithm = {
        "name": "gspo",
        "kl": {"coefficient": 0.001},
        "importanceSampling": {"mode": "off"},
    }
    moved = np.array([0.5, -1.0])
    with Bench(folder, algorithm=algorithm) as bench:
        loss, sums = policy_loss(bench, sampler=moved, reference=12.0)
    assert float(loss.detach()) == pytest.approx(0.01 * (1.6487 + 0.3679) / 2, rel=1e-3)
    assert sums["ratio"] == pytest.approx(2 * 0.7788, rel=1e-3)


@pytest.mark.parametrize(("mode", "counted"), [("off", 2), ("truncate", 2), ("mask", 1)])
def test_tokens_that_are_dropped_have_no_entropy_bonus(folder, mode, counted):
    algorithm = {"entropy": 0.5, "importanceSampling": {"mode": mode, "cap": 2.0}}
    with Bench(folder, algorithm=algorithm) as bench:
        _, entropy_S = score(bench.worker.decoder, pack([example(GROUP[0], {})], [0]), 1024)
        loss, sums = policy_loss(bench, old=0.0, sampler=np.array([0.5, -1.0]))
    bonus = 0.5 * float(entropy_S[:counted].sum()) / 2
    assert float(loss.detach()) == pytest.approx(-bonus, rel=1e-5)
    assert sums["entropy"] == pytest.approx(float(entropy_S.sum()))


def test_without_an_entropy_bonus_the_entropy_is_measured_without_gradient(folder):
    with Bench(folder) as bench:
        row = pack([example(GROUP[0], {})], [0])
        _, measured = score(bench.worker.decoder, row, 1024)
        _, differentiated = score(bench.worker.decoder, row, 1024, entropy_gradient=True)
        loss, sums = policy_loss(bench, old=0.0, sampler=0.0)
        loss.backward()
    assert not measured.requires_grad
    assert differentiated.requires_grad
    assert torch.equal(measured, differentiated.detach())
    assert sums["entropy"] == pytest.approx(float(measured.sum()))


def test_a_policy_that_has_not_moved_is_its_own_old_policy_bit_for_bit(folder):
    """Loss and gradient of a first step equal those with a column of the log-probabilities before
    the update, computed by a pass of its own."""
    found = []
    for known in (True, False):
        with Bench(folder) as bench:
            now_S = bench.logprobs(GROUP[0]).numpy()
            columns = {"advantage": np.full_like(now_S, 0.7), "sampler": now_S - np.float32(0.3)}
            objective = PolicyGradient(
                algorithm=bench.spec.algorithm,
                denominators=Denominators(tokens=len(now_S), episodes=1, token_limit=64),
                chunk=1024,
                unmoved=not known,
            )
            columns |= {"old": now_S} if known else {}
            loss, _ = objective(bench.worker.decoder, pack([example(GROUP[0], columns)], [0]))
            loss.backward()
            grads = [p.grad.clone() for p in bench.worker.decoder.parameters()]
            found.append((loss.detach(), *grads))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert any(float(grad.abs().max()) > 0 for grad in found[0][1:])
