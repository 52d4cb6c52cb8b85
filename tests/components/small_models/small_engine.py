"""A torch engine on a small decoder, and requests to it."""

import asyncio
from dataclasses import replace

import torch
from small_shape import LLAMA

from agentrl_components.engines.engine import Request, Sampling
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal

STOP = 1
FREE = Sampling(temperature=1.0, top_p=1.0, max_tokens=9, stop=(STOP,))


def decoder(
    heads=4, kv_heads=2, width=8, vocabulary=41, hidden=32, intermediate=48, seed=5, scale=1.0
) -> Decoder:
    shape = replace(
        LLAMA,
        vocabulary=vocabulary,
        hidden=hidden,
        intermediate=intermediate,
        heads=heads,
        kv_heads=kv_heads,
        head_width=width,
        tied=True,
    )
    made = Decoder(shape)
    made.initialise(torch.Generator().manual_seed(seed))
    with torch.no_grad():  # far from uniform, so that an error in the cache changes the output
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


def first_logits(made, ids):
    """Logits after `ids`, computed without a cache."""
    with torch.no_grad():
        attend = PackedCausal([len(ids)], torch.device("cpu"))
        return made.logits(made(torch.tensor(ids), attend.positions_N, attend))[-1]
