"""Check of replies that are under way while new weights come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from gpu_checks.data import requests, restricted
from gpu_checks.engines import (
    LOGPROB_TOLERANCE,
    LOOP,
    logprobs,
    of_engine,
    on_runner_v1,
    vllm_options,
)
from gpu_checks.place import Place, require

from agentrl_components.engines.engine import Generation, Request
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import device_weights

if TYPE_CHECKING:
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

FEW_TOKENS = 3
"""After so many, new weights come."""


def check_interrupts(place: Place) -> dict[str, Any]:
    """Replies under way go on with the new weights (`continue`), or start again (`abort`). Every
    log-probability is that of the weights of its token's version."""
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    dtype: Literal["float32", "bfloat16"] = "float32" if place.cpu else "bfloat16"
    engine = VllmEngine(place.folder, vllm_options(place, dtype))
    decoder = place.decoder(getattr(torch, dtype))
    free = requests(8, 32, 64, decoder.shape.vocabulary)
    asked = [*free, *(restricted(one, decoder.shape.vocabulary) for one in free)]
    figures: dict[str, Any] = {"dtype": dtype}
    for version, interrupt in enumerate(INTERRUPTS, 1):
        old = deepcopy(decoder)
        replies = LOOP.run_until_complete(interrupted(engine, asked, decoder, version, interrupt))
        before, after = (logprobs(one, asked, replies) for one in (old, decoder))
        worst, both = 0.0, 0
        for reply, of_old, of_new in zip(replies, before, after, strict=True):
            versions = np.array(reply.versions or [reply.version] * len(reply.ids))
            new = versions[np.flatnonzero(reply.sampled)] == version
            difference = np.abs(np.where(new, of_new, of_old) - of_engine(reply))
            worst = max(worst, float(difference.max(initial=0.0)))
            both += int(new.any() and not new.all())
        changed = float(np.abs(np.concatenate(before) - np.concatenate(after)).mean())
        assert changed > LOGPROB_TOLERANCE[dtype], f"both weights are alike: {changed:.3g} nats"
        assert worst <= LOGPROB_TOLERANCE[dtype], f"{interrupt}: differs by {worst:.3g} nats"
        assert (both >= len(free)) == (interrupt == "continue"), f"{interrupt}: {both} of both"
        figures[interrupt] = {"logprob_difference": worst, "replies_of_both_versions": both}
    return figures


INTERRUPTS: tuple[Literal["continue", "abort"], ...] = ("continue", "abort")
check_interrupts_v1 = on_runner_v1(check_interrupts)


async def interrupted(
    engine: VllmEngine,
    asked: Sequence[Request],
    decoder: Decoder,
    version: int,
    interrupt: Literal["continue", "abort"],
) -> list[Generation]:
    """The replies to all requests. When a further one of `FEW_TOKENS` has ended, the decoder and
    the engine get other weights."""
    short = replace(
        asked[0], session=2000, sampling=replace(asked[0].sampling, max_tokens=FEW_TOKENS)
    )
    under_way = [asyncio.ensure_future(engine.generate(one)) for one in asked]
    await engine.generate(short)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(parameter.roll(1, 0))
    await engine.load(device_weights(decoder), version, interrupt)
    return await asyncio.gather(*under_way)
