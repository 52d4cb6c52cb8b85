"""The torch engine: the same tokens and log-probabilities whatever else is in the batch.

24 episodes of three turns are played alone, all together, and with random delays, and must agree
to the last bit. Everything else is small.
"""

import asyncio
import math
import random

import pytest
import torch

from agentrl_components.architecture import Architecture, Rope
from agentrl_components.decoder import Decoder
from agentrl_components.engine import Request, Sampling, Stop
from agentrl_components.errors import EngineError
from agentrl_components.packing import Example, pack
from agentrl_components.scoring import score
from agentrl_components.torch_engine import TorchEngine

STOP = 1
FREE = Sampling(temperature=1.0, top_p=1.0, max_tokens=9, stop=(STOP,))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def decoder(heads=4, kv_heads=2, width=8, vocabulary=41, hidden=32, seed=5, scale=1.0) -> Decoder:
    shape = Architecture(
        family="llama",
        vocabulary=vocabulary,
        hidden=hidden,
        intermediate=48,
        layers=2,
        heads=heads,
        kv_heads=kv_heads,
        head_width=width,
        eps=1e-6,
        rope=Rope(),
        tied=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        normed=False,
    )
    made = Decoder(shape)
    made.initialise(torch.Generator().manual_seed(seed))
    with torch.no_grad():  # far from uniform, so that a wrong key shows
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    return made.eval()


def request(session, ids, seed=0, sampling=FREE, admissible=None) -> Request:
    return Request(session=session, ids=ids, seed=seed, sampling=sampling, admissible=admissible)


async def once(engine, *arguments, **named):
    try:
        return await engine.generate(request(*arguments, **named))
    finally:
        await engine.close()


def answer(made, ids, **named):
    return asyncio.run(once(TorchEngine(made), 1, ids, **named))


class Script:
    """What the worlds of 24 episodes say: 1 to 130 tokens a turn, so caches differ widely."""

    def __init__(self, confined: bool) -> None:
        draw = random.Random(3)
        self.confined = confined
        self.said = [
            [
                [draw.randrange(2, 41) for _ in range(draw.choice((1, 2, 3, 5, 17, 70, 130)))]
                for _ in range(3)
            ]
            for _ in range(24)
        ]
        self.admissible = [
            [
                [[draw.randrange(2, 41) for _ in range(draw.randint(1, 4))] for _ in range(n)]
                for n in (1, 3, 7)
            ]
            for _ in range(24)
        ]

    async def play(self, engine, episode, delays=None):
        ids, replies = [], []
        for turn in range(3):
            if delays is not None:
                await asyncio.sleep(delays.uniform(0, 0.01))
            ids += self.said[episode][turn]
            sampling = Sampling(
                temperature=(1.0, 0.7)[episode % 2],
                top_p=(1.0, 1.0, 0.9)[episode % 3],
                max_tokens=(1, 4, 12)[(episode + turn) % 3],
                stop=(STOP,),
            )
            seed = 1000 * episode + turn
            admissible = self.admissible[episode][turn] if self.confined else None
            reply = await engine.generate(request(episode, tuple(ids), seed, sampling, admissible))
            ids += reply.ids
            replies.append((reply.ids, reply.logprobs, reply.sampled, reply.allowed, reply.stop))
        await engine.release(episode)
        return replies

    async def alone(self, made):
        """Each episode by itself, its engine new."""
        return [await self.play(TorchEngine(made), episode) for episode in range(24)]

    async def together(self, made):
        engine = TorchEngine(made)
        return await asyncio.gather(*(self.play(engine, e) for e in range(24)))

    async def jittered(self, made, seed):
        engine = TorchEngine(made)
        draws = random.Random(seed)
        order = draws.sample(range(24), 24)
        gate = asyncio.Semaphore(11)  # episodes join while others end: slots are used again

        async def one(episode):
            async with gate:
                return await self.play(engine, episode, random.Random(seed * 100 + episode))

        played = await asyncio.gather(*(one(e) for e in order))
        return [played[order.index(e)] for e in range(24)]


SHAPES = {
    "two key heads": {},
    "three heads share one": {"heads": 3, "kv_heads": 1, "hidden": 24},
    "a key head each": {"heads": 2, "kv_heads": 2, "width": 16},
    "eight share one": {"heads": 8, "kv_heads": 1, "width": 8, "hidden": 64},
    "the demo's": {"heads": 3, "kv_heads": 1, "width": 32, "hidden": 96, "vocabulary": 68},
}


@pytest.mark.parametrize("confined", [False, True], ids=["free", "admissible"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seeds_give_the_same_bits_in_whatever_order_worlds_answer(shape, confined):
    made, script = decoder(**SHAPES[shape]), Script(confined)
    alone = asyncio.run(script.alone(made))
    assert asyncio.run(script.together(made)) == alone
    assert asyncio.run(script.jittered(made, 1)) == alone


def test_the_cache_gives_what_computing_everything_anew_gives():
    made, script = decoder(), Script(confined=False)

    async def play(renewed):
        engine = TorchEngine(made)
        ids, replies = [], []
        for turn in range(3):
            ids += script.said[4][turn]
            if renewed:
                engine.renew(0)
            reply = await engine.generate(request(1, tuple(ids), turn))
            ids += reply.ids
            replies.append(reply)
        return replies

    kept, anew = asyncio.run(play(False)), asyncio.run(play(True))
    assert [reply.ids for reply in kept] == [reply.ids for reply in anew]
    for old, new in zip(kept, anew, strict=True):
        assert old.logprobs == pytest.approx(new.logprobs, abs=1e-5)


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


def first_logits(made, ids):
    """Logits after `ids`, computed without a cache."""
    from agentrl_components.attention import PackedCausal

    with torch.no_grad():
        attend = PackedCausal([len(ids)], torch.device("cpu"))
        return made.logits(made(torch.tensor(ids), attend.positions_N, attend))[-1]


def test_replies_are_admissible_and_their_probability_is_shared_among_what_is():
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


async def test_new_weights_forget_every_cache():
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


async def test_weights_of_another_model_are_refused():
    engine = TorchEngine(decoder())
    weights = dict(decoder().state_dict())
    weights["model.other"] = weights.pop("model.norm.weight")
    with pytest.raises(EngineError, match=r"missing \['model\.norm\.weight'\]"):
        await engine.load(weights, version=1)
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


async def test_a_bug_in_a_step_reaches_those_who_wait():
    """A seed is a uint64."""
    engine = TorchEngine(decoder())
    async with asyncio.timeout(10):
        with pytest.raises(OverflowError, match="out of bounds"):
            await engine.generate(request(1, (2, 3), seed=-1))
        assert (await engine.generate(request(2, (2, 3)))).ids
    await engine.close()


async def test_a_request_that_says_nothing_new_is_refused():
    engine = TorchEngine(decoder())
    with pytest.raises(EngineError, match="no new tokens"):
        await engine.generate(request(1, ()))


async def test_a_slot_that_was_given_back_is_used_by_the_next_session():
    engine = TorchEngine(decoder())
    for session in range(40):
        await engine.generate(request(session, (3, 4, 5), session))
        await engine.release(session)
        await engine.release(session)  # twice is no harm
    assert engine._slots == 2


async def test_a_caller_that_gave_up_disturbs_nobody():
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


async def test_a_cache_that_grows_keeps_what_it_held():
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
