"""Scoring: packed equals one by one, chunked equals whole, only sampled tokens have a gradient."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_shape import LLAMA as SHAPE
from torch.utils._python_dispatch import TorchDispatchMode

from agentrl_components.model.decoder import Decoder
from agentrl_components.spec import Algorithm
from agentrl_components.update.logprobs import score
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import Imitation, PolicyGradient
from agentrl_components.update.packing import Example, pack


def decoder() -> Decoder:
    made = Decoder(SHAPE)
    made.initialise(torch.Generator().manual_seed(4))
    return made


def example(seed, length, sampled, confined=False, temperature=1.0, **columns) -> Example:
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, 23, length).astype(np.int32)
    allowed = None
    if confined:
        others = [draw.choice(23, 4, replace=False) for _ in sampled]
        allowed = tuple(
            np.unique([ids[i], *some]).astype(np.int32)
            for i, some in zip(sampled, others, strict=True)
        )
    names = {"advantage": [1.0] * len(sampled), "sampler": [-2.0] * len(sampled)} | columns
    return Example(
        ids=ids,
        sampled=np.array(sampled),
        allowed=allowed,
        temperature=temperature,
        columns={name: np.array(c, dtype=np.float32) for name, c in names.items()},
    )


EPISODES = [
    example(1, 12, [3, 4, 9]),
    example(2, 7, [2, 6], confined=True, temperature=0.7),
    example(3, 20, [1, 18, 19], confined=True),
    example(4, 9, [5]),
]


def gradients(made):
    return [p.grad.clone() for p in made.parameters()]


@pytest.mark.parametrize(
    ("confined", "kept", "computed"),
    [
        (False, True, [9]),
        # Chunk by chunk, and in the backward pass again.
        (False, False, [4, 4, 1, 1, 4, 4]),
        # Of confined tokens, logits are in memory several times, in float32.
        (True, True, [4, 4, 1, 1, 4, 4]),
    ],
)
def test_logits_are_kept_if_all_tokens_are_allowed_and_there_is_room(confined, kept, computed):
    episodes = EPISODES if confined else [replace(one, allowed=None) for one in EPISODES]
    made, chunks = decoder(), []
    head = made.logits
    made.logits = lambda x_NE: (chunks.append(len(x_NE)), head(x_NE))[1]  # type: ignore[method-assign]
    made.keeps_logits = kept
    score(made, pack(episodes, [2, 0, 3, 1]), chunk=4)[0].sum().backward()
    assert chunks == computed
    plain = decoder()
    score(plain, pack(episodes, [2, 0, 3, 1]), chunk=1024)[0].sum().backward()
    for one, other in zip(gradients(made), gradients(plain), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_packed_logprobs_equal_those_of_each_episode_alone():
    made = decoder()
    together, entropies = score(made, pack(EPISODES, [2, 0, 3, 1]), chunk=1024)
    alone = [score(made, pack(EPISODES, [i]), chunk=1024) for i in (2, 0, 3, 1)]
    torch.testing.assert_close(together, torch.cat([a[0] for a in alone]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(entropies, torch.cat([a[1] for a in alone]), atol=1e-5, rtol=1e-5)


def test_a_chunked_head_gives_the_same_numbers_and_gradients():
    found = []
    for chunk in (1024, 2):
        made = decoder()
        logprobs, entropies = score(made, pack(EPISODES, [0, 1, 2, 3]), chunk)
        (logprobs.sum() + 0.3 * entropies.sum()).backward()
        found.append((logprobs.detach(), entropies.detach(), *gradients(made)))
    for whole, chunked in zip(*found, strict=True):
        torch.testing.assert_close(whole, chunked, atol=1e-6, rtol=1e-5)


def test_logprob_and_entropy_are_those_of_the_confined_and_tempered_distribution():
    made = decoder()
    one = EPISODES[1]
    logprobs, entropies = score(made, pack([one], [0]), chunk=1024)
    from agentrl_components.model.packed_attention import PackedCausal

    attend = PackedCausal([one.length], torch.device("cpu"))
    ids = torch.from_numpy(one.ids[: one.length]).long()
    logits = made.logits(made(ids, attend.positions_N, attend)) / 0.7
    for place, index in enumerate(one.sampled):
        choices = one.allowed[place].tolist()
        chances = logits[index - 1][choices].softmax(0)
        chosen = choices.index(int(one.ids[index]))
        assert logprobs[place].item() == pytest.approx(chances[chosen].log().item(), abs=1e-5)
        entropy = -(chances * chances.log()).sum()
        assert entropies[place].item() == pytest.approx(entropy.item(), abs=1e-5)


def test_a_confined_token_has_a_finite_gradient():
    made = decoder()
    logprobs, entropies = score(made, pack(EPISODES, [0, 1, 2, 3]), chunk=1024)
    (logprobs.sum() + entropies.sum()).backward()
    assert all(bool(torch.isfinite(g).all()) for g in gradients(made))


def policy_gradient(count, **algorithm) -> PolicyGradient:
    return PolicyGradient(
        algorithm=Algorithm(**algorithm),
        denominators=Denominators(tokens=count, episodes=1, token_limit=64),
        chunk=1024,
        unmoved=True,
    )


def test_only_sampled_tokens_are_targets():
    """An observation that follows the last reply changes no gradient."""
    reply = example(5, 10, [4, 5])
    longer = Example(
        ids=np.concatenate([reply.ids, [1, 2, 3]]).astype(np.int32),
        sampled=reply.sampled,
        allowed=None,
        temperature=1.0,
        columns=reply.columns,
    )
    found = []
    for one in (reply, longer):
        made = decoder()
        policy_gradient(2)(made, pack([one], [0]))[0].backward()
        found.append(gradients(made))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_the_metric_of_mismatch_compares_the_sampler_with_the_weights_before_the_update():
    made = decoder()
    one = EPISODES[0]
    logprobs = score(made, pack([one], [0]), 1024)[0].detach().numpy()
    told = {**one.columns, "sampler": (logprobs - 0.1).astype(np.float32)}
    off = Example(ids=one.ids, sampled=one.sampled, allowed=None, temperature=1.0, columns=told)
    objective = policy_gradient(3, importance_sampling={"mode": "off"})
    _, sums = objective(made, pack([off], [0]))
    # k3 of a log-ratio of 0.1: e^0.1 - 1 - 0.1 = 0.0051709 a token.
    assert sums["mismatch_kl"] == pytest.approx(3 * 0.0051709, rel=1e-3)
    assert sums["fresh"] == 3.0
    moved = PolicyGradient(
        algorithm=objective.algorithm, denominators=objective.denominators, chunk=9, unmoved=False
    )
    _, sums = moved(made, pack([off], [0]))
    assert "mismatch_kl" not in sums


def test_imitation_is_the_weighted_mean_of_negative_logprobs():
    made = decoder()
    one = Example(
        ids=np.array([3, 4, 5], dtype=np.int32),
        sampled=np.array([1, 2]),
        allowed=None,
        temperature=1.0,
        columns={"weight": np.array([1.0, 0.5], dtype=np.float32)},
    )
    logprobs, _ = score(made, pack([one], [0]), 1024)
    loss, _ = Imitation(total_weight=1.5, chunk=1024)(made, pack([one], [0]))
    expected = -(logprobs[0] + 0.5 * logprobs[1]).item() / 1.5
    assert loss.item() == pytest.approx(expected, rel=1e-6)


class NoReads(TorchDispatchMode):
    """Fails if the host reads a number from a tensor, for which it would wait for a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func is not torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_a_pass_over_free_and_restricted_tokens_reads_nothing_from_the_device():
    made, packed = decoder(), pack(EPISODES, range(4))
    with NoReads():
        logprobs, _ = score(made, packed, 3)
        logprobs.sum().backward()
    assert len(logprobs) == 9
