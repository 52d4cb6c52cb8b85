"""Checks of the engines: log-probabilities, throughput, and vLLM asleep."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from gpu_checks.data import requests, restricted
from gpu_checks.place import Place, Skipped, require

from agentrl_components.engines.engine import Engine, Generation, Request
from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.engines.vllm_engine.start import RUNNER_V2, VllmOptions
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import device_weights
from agentrl_components.model.shape import read_native
from agentrl_components.update.logprobs import score
from agentrl_components.update.packing import Example, pack

LOGPROB_TOLERANCE = {"float32": 2e-3, "bfloat16": 0.15}
"""Largest difference of a token's log-probability between sampler and trainer, in nats."""
LOOP = asyncio.new_event_loop()
FloatArray = np.typing.NDArray[np.floating[Any]]


def played(engine: Engine, asked: Sequence[Request]) -> list[Generation]:
    """The replies to all requests at the same time."""

    async def all_of() -> list[Generation]:
        return await asyncio.gather(*(engine.generate(one) for one in asked))

    return LOOP.run_until_complete(all_of())


def difference(decoder: Decoder, asked: Sequence[Request], replies: Sequence[Generation]) -> float:
    """The largest difference of a log-probability between engine and trainer, in nats."""
    found = zip(logprobs(decoder, asked, replies), replies, strict=True)
    return max(float(np.abs(ours - of_engine(reply)).max(initial=0.0)) for ours, reply in found)


def of_engine(reply: Generation) -> FloatArray:
    """The log-probabilities of the sampled tokens of a reply, as the engine has them."""
    return np.array(reply.logprobs)[np.flatnonzero(reply.sampled)]


@torch.no_grad()
def logprobs(
    decoder: Decoder, asked: Sequence[Request], replies: Sequence[Generation]
) -> list[FloatArray]:
    """The log-probabilities of the sampled tokens of each reply, as the trainer has them."""
    all_of = []
    for request, reply in zip(asked, replies, strict=True):
        places = np.flatnonzero(reply.sampled)
        allowed = None
        if reply.allowed is not None:
            allowed = tuple(np.array(reply.allowed[i], dtype=np.int32) for i in places)
        one = Example(
            ids=np.array([*request.ids, *reply.ids], dtype=np.int32),
            sampled=len(request.ids) + places,
            allowed=allowed,
            temperature=1.0,
            columns={},
        )
        all_of.append(score(decoder, pack([one], [0]), 1024)[0].cpu().numpy())
    return all_of


def compare_engine(place: Place, engine: Engine, decoder: Decoder, dtype: str) -> dict[str, Any]:
    """Raises `AssertionError` if log-probabilities differ by more than rounding, or a reply is not
    admissible."""
    free = requests(4, 32, 16, decoder.shape.vocabulary)
    confined = [restricted(one, decoder.shape.vocabulary) for one in free]
    replies = played(engine, [*free, *confined])  # in one batch
    for one, reply in zip(confined, replies[len(free) :], strict=True):
        assert one.admissible is not None
        assert reply.ids[:-1] in one.admissible, f"{reply.ids} is not admissible"
    worst = difference(decoder, [*free, *confined], replies)
    assert worst <= LOGPROB_TOLERANCE[dtype], f"log-probabilities differ by {worst:.3g} nats"
    return {"dtype": dtype, "logprob_difference": worst}


def check_torch_engine(place: Place) -> dict[str, Any]:
    """The torch engine beside the trainer, in float32."""
    decoder = place.decoder(torch.float32)
    return compare_engine(place, TorchEngine(decoder), decoder, "float32")


def vllm_options(place: Place, dtype: Literal["float32", "bfloat16"]) -> VllmOptions:
    """vLLM beside a trainer."""
    return VllmOptions(device=place.device, dtype=dtype, context=2048, memory_share=0.4)


def check_vllm_engine(place: Place) -> dict[str, Any]:
    """vLLM beside the trainer."""
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    dtype: Literal["float32", "bfloat16"] = "float32" if place.cpu else "bfloat16"
    engine = VllmEngine(place.folder, vllm_options(place, dtype))
    decoder = place.decoder(getattr(torch, dtype))
    return compare_engine(place, engine, decoder, dtype)


def check_rollout(place: Place) -> dict[str, Any]:
    """Replies of 128 tokens to prompts of 512, 256 at the same time."""
    count, prompt, reply = (4, 16, 8) if place.cpu else (256, 512, 128)
    if place.cpu:
        engine: Engine = TorchEngine(place.decoder(torch.float32))
    else:
        require("vllm")
        from agentrl_components.engines.vllm_engine.engine import VllmEngine

        engine = VllmEngine(place.folder, vllm_options(place, "bfloat16"))
    vocabulary = read_native(place.folder).vocabulary
    asked = requests(count, prompt, reply, vocabulary)
    played(engine, asked[:2])  # starts kernels
    for one in asked[:2]:
        LOOP.run_until_complete(engine.release(one.session))
    began = time.perf_counter()
    replies = played(engine, asked)
    seconds = time.perf_counter() - began
    sampled = sum(len(one.ids) for one in replies)
    return {"sampled": sampled, "seconds": seconds, "tokens_per_second": sampled / seconds}


def check_sleep(place: Place) -> dict[str, Any]:
    """vLLM sleeps while a trainer works on the same GPU, and wakes with the trainer's weights. Then
    free and restricted replies are played together."""
    require("vllm")
    if place.cpu:
        raise Skipped("vLLM's sleep mode needs CUDA")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    engine = VllmEngine(place.folder, replace(vllm_options(place, "bfloat16"), sleeps=True))
    decoder = place.decoder(torch.bfloat16)
    asked = requests(4, 32, 16, decoder.shape.vocabulary)
    before, awake = played(engine, asked), torch.cuda.mem_get_info()[0]
    began = time.perf_counter()
    LOOP.run_until_complete(engine.sleep())
    slept, (asleep, total) = time.perf_counter() - began, torch.cuda.mem_get_info()
    own = sum(parameter.nbytes for parameter in decoder.parameters())
    torch.empty((asleep - awake) // 2, dtype=torch.uint8, device="cuda").fill_(1)
    began = time.perf_counter()
    LOOP.run_until_complete(engine.load(device_weights(decoder), 0))
    woke = time.perf_counter() - began
    found = compare_engine(place, engine, decoder, "bfloat16")
    after = played(engine, asked)
    return found | {
        "freed_gib": (asleep - awake) / 2**30,
        "kept_gib": (total - asleep - own) / 2**30,  # with the CUDA context of this process
        "seconds_to_sleep": slept,
        "seconds_to_wake": woke,
        "same_replies": [one.ids for one in after] == [one.ids for one in before],
    }


def on_runner_v1(check: Callable[[Place], dict[str, Any]]) -> Callable[[Place], dict[str, Any]]:
    """A check of vLLM with its model runner V1, which runs with `RUNNER_V2` set to 0."""

    def of_v1(place: Place) -> dict[str, Any]:
        require("vllm")
        if place.cpu:
            raise Skipped("on a CPU vLLM's model runner is V1 in the checks without that name")
        os.environ[RUNNER_V2] = "0"
        return check(place)

    return of_v1


check_vllm_engine_v1 = on_runner_v1(check_vllm_engine)
check_rollout_v1 = on_runner_v1(check_rollout)
check_sleep_v1 = on_runner_v1(check_sleep)
