"""Requests to the torch engine while weights, callers and caches come and go."""

import asyncio
from itertools import product

import pytest
import torch
from small_engine import decoder, first_logits, request

from agentrl_components.engines.engine import Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError


async def test_new_weights_invalidate_every_cache():
    made, other = decoder(seed=5), decoder(seed=6)
    engine = TorchEngine(made)
    first = await engine.generate(request(1, (3, 4, 5), 1))
    await engine.load(other.state_dict(), version=8)
    ids = (3, 4, 5, *first.ids, 9)
    second = await engine.generate(request(1, ids, 2))
    fresh = await TorchEngine(decoder(seed=6)).generate(request(1, ids, 2))
    assert (second.ids, second.logprobs) == (fresh.ids, fresh.logprobs)
    assert (first.version, second.version) == (0, 8)


async def test_weights_that_come_while_replies_are_under_way_wait_for_them_and_then_go_first():
    engine = TorchEngine(decoder(seed=5))
    other = decoder(seed=6)
    long = Sampling(temperature=1.0, top_p=1.0, max_tokens=40, stop=(0,))
    before = asyncio.create_task(engine.generate(request(1, (3, 4), 1, long)))
    await asyncio.sleep(0)
    loading = asyncio.create_task(engine.load(other.state_dict(), version=3))
    await asyncio.sleep(0)
    after = asyncio.create_task(engine.generate(request(2, (3, 4), 1, long)))
    await loading
    old, new = await before, await after
    assert (old.version, new.version) == (0, 3)
    alone = await TorchEngine(decoder(seed=5)).generate(request(1, (3, 4), 1, long))
    fresh = await TorchEngine(decoder(seed=6)).generate(request(1, (3, 4), 1, long))
    assert old.logprobs == alone.logprobs
    assert new.logprobs == fresh.logprobs


LONG = Sampling(temperature=1.0, top_p=1.0, max_tokens=12, stop=(0,))


async def interrupted(how, admissible=None):
    """A reply during which weights of version 3 came, after five tokens."""
    engine = TorchEngine(decoder(seed=5))
    under_way = asyncio.create_task(engine.generate(request(1, (3, 4), 1, LONG, admissible)))
    for _ in range(6):
        await asyncio.sleep(0)
    await engine.load(decoder(seed=6).state_dict(), 3, how)
    return await under_way


async def test_a_reply_that_goes_on_with_new_weights_keeps_the_version_of_each_token():
    reply = await interrupted("continue")
    old = reply.versions.count(0)
    assert 0 < old < 12
    assert reply.versions == (0,) * old + (3,) * (12 - old)
    assert reply.version == 0
    before = await TorchEngine(decoder(seed=5)).generate(request(1, (3, 4), 1, LONG))
    assert reply.logprobs[:old] == before.logprobs[:old]
    # The first token under the new weights has the probability that they give it, all tokens read.
    read = (3, 4, *reply.ids[:old])
    expected = first_logits(decoder(seed=6), read).log_softmax(0)[reply.ids[old]]
    assert reply.logprobs[old] == pytest.approx(float(expected), abs=1e-5)


@pytest.mark.parametrize("how", ["finish", "continue", "abort"])
async def test_weights_in_parts_give_the_replies_of_weights_at_once(how):
    whole = await interrupted(how)
    engine = TorchEngine(decoder(seed=5))
    under_way = asyncio.create_task(engine.generate(request(1, (3, 4), 1, LONG)))
    for _ in range(6):
        await asyncio.sleep(0)
    await engine.start_update(how)
    later = asyncio.create_task(engine.generate(request(2, (3, 4), 1, LONG)))
    for name, tensor in decoder(seed=6).state_dict().items():
        await engine.update({name: tensor})
        await asyncio.sleep(0)
    await engine.finish_update(3)
    assert await under_way == whole
    fresh = await TorchEngine(decoder(seed=6), 3).generate(request(1, (3, 4), 1, LONG))
    assert await later == fresh


async def test_weights_that_change_in_part_leave_the_others_as_they_are():
    made, other = decoder(seed=5), decoder(seed=6)
    engine = TorchEngine(made)
    await engine.start_update(partial=True)
    await engine.update({"model.norm.weight": other.state_dict()["model.norm.weight"] * 2})
    await engine.finish_update(4)
    expected = decoder(seed=5)
    expected.state_dict()["model.norm.weight"].copy_(made.state_dict()["model.norm.weight"])
    reply = await engine.generate(request(1, (3, 4), 1))
    fresh = await TorchEngine(expected, 4).generate(request(1, (3, 4), 1))
    assert (reply.ids, reply.logprobs, reply.version) == (fresh.ids, fresh.logprobs, 4)


async def test_changed_entries_give_the_replies_of_the_new_weights():
    engine, other = TorchEngine(decoder(seed=5)), decoder(seed=5)
    name = "model.layers.0.mlp.up_proj.weight"
    weight = other.state_dict()[name]
    weight.view(-1)[[0, weight.numel() - 1]] = torch.tensor([2.0, -3.0])
    await engine.start_update(partial=True)
    await engine.change([changed(name, weight.shape, [0, weight.numel() - 1], [2.0, -3.0])])
    await engine.finish_update(4)
    reply = await engine.generate(request(1, (3, 4), 1))
    fresh = await TorchEngine(other, 4).generate(request(1, (3, 4), 1))
    assert (reply.ids, reply.logprobs, reply.version) == (fresh.ids, fresh.logprobs, 4)


@pytest.mark.parametrize(
    ("name", "shape", "reason"),
    [("model.norm.weight", (9,), r"has shape \(9,\)"), ("model.extra", (9,), "unknown")],
)
async def test_changes_that_do_not_fit_are_refused_and_the_engine_goes_on(name, shape, reason):
    engine = TorchEngine(decoder(seed=5))
    before = await engine.generate(request(1, (3, 4), 1))
    await engine.start_update(partial=True)
    with pytest.raises(EngineError, match=reason):
        await engine.change([changed(name, shape, [0], [2.0])])
    assert await engine.generate(request(2, (3, 4), 1)) == before


def changed(name, shape, indices, values):
    return WeightChange(
        name=name,
        shape=tuple(shape),
        indices=torch.tensor(indices, dtype=torch.int32),
        values=torch.tensor(values),
    )


@pytest.mark.parametrize("admissible", [None, list(product((5, 6), repeat=9))])
async def test_a_reply_that_is_aborted_is_that_of_the_new_weights(admissible):
    reply = await interrupted("abort", admissible)
    fresh = await TorchEngine(decoder(seed=6), 3).generate(request(1, (3, 4), 1, LONG, admissible))
    assert reply == fresh


async def test_the_engine_counts_the_prompt_tokens_that_its_cache_held():
    engine = TorchEngine(decoder())
    first = await engine.generate(request(1, (3, 4, 5), 1))
    await engine.generate(request(1, (3, 4, 5, *first.ids, 9), 2))
    # The last sampled token has not been read yet when the second request comes.
    assert engine.prompt_tokens == 3 + 3 + len(first.ids) + 1
    assert engine.cached_tokens == 3 + len(first.ids) - 1


async def test_weights_of_another_model_are_refused():
    engine = TorchEngine(decoder())
    weights = dict(decoder().state_dict())
    norm = weights.pop("model.norm.weight")
    with pytest.raises(EngineError, match=r"missing \['model\.norm\.weight'\]"):
        await engine.load(weights, version=1)
    with pytest.raises(EngineError, match=r"unknown \['model\.other'\]"):
        await engine.load(weights | {"model.other": norm}, version=1)
    with pytest.raises(EngineError, match="do not fit"):
        await engine.load(decoder(hidden=64).state_dict(), version=1)
    await engine.generate(request(1, (3, 4)))  # and it goes on


async def test_closing_fails_replies_under_way():
    engine = TorchEngine(decoder())
    long = Sampling(temperature=1.0, top_p=1.0, max_tokens=500, stop=(0,))
    waiting = asyncio.create_task(engine.generate(request(1, (3, 4), 0, long)))
    for _ in range(3):
        await asyncio.sleep(0)
    await engine.close()
    with pytest.raises(EngineError, match="closed"):
        await waiting


@pytest.mark.parametrize("ids", [(3, 41), (3, -1)])
async def test_a_token_outside_the_vocabulary_is_an_error_and_not_a_hang(ids):
    with pytest.raises(EngineError, match="vocabulary of 41"):
        await TorchEngine(decoder()).generate(request(1, ids))


async def test_an_unexpected_error_in_a_step_fails_pending_replies():
    """A seed is a uint64."""
    engine = TorchEngine(decoder())
    async with asyncio.timeout(300):
        with pytest.raises(OverflowError, match="out of bounds"):
            await engine.generate(request(1, (2, 3), seed=-1))
        assert (await engine.generate(request(2, (2, 3)))).ids
    await engine.close()


async def test_a_request_without_new_tokens_is_refused():
    engine = TorchEngine(decoder())
    with pytest.raises(EngineError, match="no new tokens"):
        await engine.generate(request(1, ()))


async def test_a_slot_that_was_given_back_is_used_by_the_next_session():
    engine = TorchEngine(decoder())
    for session in range(40):
        await engine.generate(request(session, (3, 4, 5), session))
        await engine.release(session)
        await engine.release(session)  # twice is no harm
    assert engine._slots == 1


async def test_a_cancelled_request_does_not_affect_other_replies():
    made = decoder()
    engine = TorchEngine(made)
    long = Sampling(temperature=1.0, top_p=1.0, max_tokens=60, stop=(0,))
    waiting = asyncio.create_task(engine.generate(request(1, (3, 4), 0, long)))
    for _ in range(4):
        await asyncio.sleep(0)
    waiting.cancel()
    await engine.release(1)  # its slot goes to session 2 while its row is still in the batch
    reply = await engine.generate(request(2, (9, 8, 7), 5, long))
    alone = await TorchEngine(made).generate(request(2, (9, 8, 7), 5, long))
    assert (reply.ids, reply.logprobs) == (alone.ids, alone.logprobs)


async def test_a_growing_cache_keeps_its_content():
    made = decoder()
    engine = TorchEngine(made)
    ids = tuple(range(2, 40))
    first = await engine.generate(request(1, ids, 1))
    many = [request(s, tuple(2 + (s * i) % 38 for i in range(200)), s) for s in range(2, 30)]
    await asyncio.gather(*(engine.generate(each) for each in many))
    ids = (*ids, *first.ids, 7)
    again = await engine.generate(request(1, ids, 2))
    fresh = await TorchEngine(made).generate(request(1, ids, 2))
    assert again.ids == fresh.ids
    assert again.logprobs == pytest.approx(fresh.logprobs, abs=1e-5)


@pytest.mark.parametrize(
    ("admissible", "stop", "reason"),
    [
        ([], (1,), "session 7: an admissible set needs at least one action"),
        ([(5,), ()], (1,), "session 7: an admissible action needs at least one token"),
        ([(5, 1)], (1,), r"session 7: admissible action \[5, 1\] holds the stop token 1"),
        ([(5,)], (), "session 7: admissible replies need a stop token"),
    ],
)
async def test_an_admissible_set_that_cannot_be_used_is_refused_before_a_slot_is_taken(
    admissible, stop, reason
):
    engine = TorchEngine(decoder())
    sampling = Sampling(temperature=1.0, top_p=1.0, max_tokens=9, stop=stop)
    with pytest.raises(EngineError, match=reason):
        await engine.generate(request(7, (3, 4), 0, sampling, admissible))
    assert (engine._slots, engine.prompt_tokens) == (0, 0)
