"""Replies of the torch engine: what is sampled, its log-probabilities, and where it ends."""

import math

import pytest
import torch
from small_engine import STOP, answer, decoder, first_logits

from agentrl_components.engines.engine import Sampling, Stop
from agentrl_components.update.logprobs import score
from agentrl_components.update.packing import Example, pack


@pytest.mark.parametrize("admissible", [None, [[5, 6], [5, 7, 8], [9]]])
def test_logprobs_are_those_that_training_computes(admissible):
    made = decoder()
    sampling = Sampling(temperature=0.8, top_p=1.0, max_tokens=9, stop=(STOP,))
    prompt = [3, 9, 12, 30, 2]
    reply = answer(made, prompt, seed=11, sampling=sampling, admissible=admissible)
    sampled = [i for i, own in enumerate(reply.sampled) if own]
    allowed = None
    if reply.allowed is not None:
        allowed = tuple(torch.tensor(reply.allowed[i], dtype=torch.int32).numpy() for i in sampled)
    example = Example(
        ids=torch.tensor([*prompt, *reply.ids], dtype=torch.int32).numpy(),
        sampled=torch.tensor([len(prompt) + i for i in sampled]).numpy(),
        allowed=allowed,
        temperature=0.8,
        columns={},
    )
    logprobs, _ = score(made, pack([example], [0]), chunk=1024)
    expected = [reply.logprobs[i] for i in sampled]
    assert len(expected) > 0
    torch.testing.assert_close(logprobs.detach(), torch.tensor(expected), atol=1e-5, rtol=1e-5)


def test_admissible_replies_have_renormalised_probabilities():
    made, prompt = decoder(scale=0.5), [3, 4, 5]
    actions = [[10, 11], [10, 12, 13], [20]]
    logits = first_logits(made, prompt)
    share_of_10 = float(torch.softmax(logits[[10, 20]], 0)[0])
    counts = {10: 0, 20: 0}
    for seed in range(60):
        reply = answer(made, prompt, seed=seed, admissible=actions)
        assert list(reply.ids[:-1]) in actions
        assert reply.ids[-1] == STOP
        assert reply.stop is Stop.STOP
        assert reply.allowed[0] == (10, 20)
        counts[reply.ids[0]] += 1
        chance = share_of_10 if reply.ids[0] == 10 else 1 - share_of_10
        assert reply.logprobs[0] == pytest.approx(math.log(chance), abs=1e-5)
    assert abs(counts[10] / 60 - share_of_10) < 0.2


def test_forced_tokens_are_not_sampled_and_have_logprob_0():
    made = decoder()
    reply = answer(made, [3, 4], admissible=[[10, 11, 12], [10, 11, 13, 14]])
    assert reply.sampled[:3] == (False, False, True)
    assert reply.logprobs[:2] == (0.0, 0.0)
    assert reply.logprobs[2] < 0.0
    assert reply.allowed[:3] == ((10,), (11,), (12, 13))
    assert not any(reply.sampled[3:])
    assert set(reply.logprobs[3:]) == {0.0}


def test_a_single_admissible_action_needs_no_model_at_all():
    reply = answer(decoder(), [3, 4], admissible=[[10, 11]])
    assert reply.ids == (10, 11, STOP)
    assert reply.sampled == (False, False, False)


def test_a_reply_that_reaches_its_limit_has_no_stop_token():
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=2, stop=(40,))
    forced = answer(decoder(), [3], sampling=sampling, admissible=[[7, 8, 9]])
    assert (forced.ids, forced.stop) == ((7, 8), Stop.LENGTH)
    free = answer(decoder(), [3], sampling=sampling)
    assert len(free.ids) == 2
    assert free.stop is (Stop.STOP if free.ids[-1] == 40 else Stop.LENGTH)


def test_any_stop_token_ends_a_reply():
    made = decoder()
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=50, stop=tuple(range(1, 20)))
    for seed in range(5):
        reply = answer(made, [3, 4], seed=seed, sampling=sampling)
        assert reply.stop is Stop.STOP
        assert reply.ids[-1] < 20
        assert all(not 1 <= token < 20 for token in reply.ids[:-1])


def test_temperature_0_takes_the_likeliest_with_its_logprob_at_temperature_1():
    made = decoder()
    sampling = Sampling(temperature=0.0, top_p=1.0, max_tokens=1, stop=(STOP,))
    logits = first_logits(made, [3, 4])
    for seed in range(3):
        reply = answer(made, [3, 4], seed=seed, sampling=sampling)
        assert reply.ids[0] == int(logits.argmax())
        expected = float(logits.log_softmax(0).max())
        assert reply.logprobs[0] == pytest.approx(expected, abs=1e-5)


def test_only_tokens_of_the_nucleus_are_sampled():
    made = decoder(scale=0.5)
    chances = first_logits(made, [3, 4]).softmax(0)
    ordered, order = chances.sort(descending=True)
    size = int((ordered.cumsum(0) < 0.5).sum()) + 1
    kept = set(order[:size].tolist())
    sampling = Sampling(temperature=1.0, top_p=0.5, max_tokens=1, stop=(STOP,))
    for seed in range(30):
        reply = answer(made, [3, 4], seed=seed, sampling=sampling)
        assert reply.ids[0] in kept
        expected = float(chances[reply.ids[0]] / ordered[:size].sum())
        assert math.exp(reply.logprobs[0]) == pytest.approx(expected, abs=1e-5)
