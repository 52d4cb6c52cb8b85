"""24 episodes of three turns are played alone, all together, and with random delays, and must agree
to the last bit."""

import asyncio
import os
import random
import subprocess
import sys

import pytest
from small_engine import STOP, decoder, request

from agentrl_components.engines.engine import Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine


class Script:
    """What the worlds of 24 episodes say: 1 to 130 tokens a turn, so caches differ widely. Three
    episodes have the same task, and the same tokens until they take different actions."""

    def __init__(self, confined: bool) -> None:
        draw = random.Random(3)
        self.confined = confined
        self.said = [
            [
                [draw.randrange(2, 41) for _ in range(draw.choice((1, 2, 3, 5, 17, 70, 130)))]
                for _ in range(3)
            ]
            for _ in range(8)
        ]
        self.admissible = [
            [
                [[draw.randrange(2, 41) for _ in range(draw.randint(1, 4))] for _ in range(n)]
                for n in (1, 3, 7)
            ]
            for _ in range(8)
        ]

    async def play(self, engine, episode, delays=None):
        ids, replies = [], []
        for turn in range(3):
            if delays is not None:
                await asyncio.sleep(delays.uniform(0, 0.01))
            ids += self.said[episode // 3][turn]
            sampling = Sampling(
                temperature=(1.0, 0.7)[episode % 2],
                top_p=(1.0, 1.0, 0.9)[episode % 3],
                max_tokens=(1, 4, 12)[(episode + turn) % 3],
                stop=(STOP,),
            )
            seed = 1000 * episode + turn
            admissible = self.admissible[episode // 3][turn] if self.confined else None
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
    "millions of parameters": {
        "heads": 4,
        "kv_heads": 2,
        "width": 64,
        "hidden": 256,
        "intermediate": 512,
        "vocabulary": 504,
    },
}


@pytest.mark.parametrize("confined", [False, True], ids=["free", "admissible"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_seeds_give_the_same_bits_in_whatever_order_worlds_answer(shape, confined):
    made, script = decoder(**SHAPES[shape]), Script(confined)
    alone = asyncio.run(script.alone(made))
    assert asyncio.run(script.together(made)) == alone
    assert asyncio.run(script.jittered(made, 1)) == alone


def test_cached_and_uncached_forward_passes_agree():
    made, script = decoder(), Script(confined=False)

    async def play(renewed):
        engine = TorchEngine(made)
        ids, replies = [], []
        for turn in range(3):
            ids += script.said[4][turn]
            if renewed:
                engine.use_as(0)
            reply = await engine.generate(request(1, tuple(ids), turn))
            ids += reply.ids
            replies.append(reply)
        return replies

    kept, anew = asyncio.run(play(False)), asyncio.run(play(True))
    assert [reply.ids for reply in kept] == [reply.ids for reply in anew]
    for old, new in zip(kept, anew, strict=True):
        assert old.logprobs == pytest.approx(new.logprobs, abs=1e-5)


OLDER = {
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NUMBA_CPU_NAME": "haswell",
    "NUMBA_CPU_FEATURES": "",
    "OMP_NUM_THREADS": "1",
}
"""Libraries choose their kernels when they are loaded, hence a process."""


def test_processors_without_avx_512_give_the_same_bits_too():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    command += ["-k", "same_seeds and (demo or eight)"]
    played = subprocess.run(command, env=os.environ | OLDER, capture_output=True, text=True)
    assert "4 passed" in played.stdout, played.stdout + played.stderr
