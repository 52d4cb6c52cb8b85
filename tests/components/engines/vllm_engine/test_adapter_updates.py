"""Adapters that change while a real vLLM samples replies. Slow: vLLM takes 10 s to start."""

import asyncio
import copy
from dataclasses import replace

import pytest
import torch
from held_vllm import HeldVllm
from needs_vllm import NEEDS_VLLM
from tiny_qwen import CONTEXT, LOOSE, ask, expected, make_model

from agentrl_components.engines.vllm_engine.adapters import write_adapters
from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.spec import Lora

pytestmark = [*NEEDS_VLLM, pytest.mark.slow]

LORA = Lora(rank=2, alpha=4, targets=("q_proj",))
LAYERS = [f"model.layers.{number}.self_attn.q_proj" for number in range(2)]
PROMPT = tuple(range(3, 43))
LONG = replace(LOOSE, max_tokens=40)


def adapters(seed):
    """A of [rank, in] and B of [out, rank] for each layer."""
    random = torch.Generator().manual_seed(seed)
    return {
        f"{layer}.lora_{kind}.default.weight": torch.randn(shape, generator=random) / 4
        for layer in LAYERS
        for kind, shape in (("A", (2, 128)), ("B", (128, 2)))
    }


def merged(model, made):
    """The model with adapters in its weights: W + alpha / rank * B A."""
    model = copy.deepcopy(model)
    for layer in LAYERS:
        a, b = (made[f"{layer}.lora_{kind}.default.weight"] for kind in "AB")
        model.get_submodule(layer).weight.data += 4 / 2 * b @ a
    return model


async def test_replies_under_way_go_on_or_start_again_with_new_adapters(tmp_path):
    model = make_model(0)
    model.save_pretrained(tmp_path / "model")
    vllm = HeldVllm(
        tmp_path / "model", VllmOptions(context=CONTEXT, cache_bytes=16 << 20, adapter_rank=2)
    )
    # One engine for both, because it takes long to start.
    engine = VllmEngine(tmp_path / "model", VllmOptions(), start=lambda *_: vllm)
    folders = [tmp_path / str(seed) for seed in range(3)]
    models = []
    for seed, folder in enumerate(folders):
        folder.mkdir()
        write_adapters(folder, LORA, adapters(seed))
        models.append(merged(model, adapters(seed)))

    await engine.use_adapters(folders[0], 1)
    goes_on = asyncio.create_task(engine.generate(ask(PROMPT, 0, LONG)))
    await vllm.after_steps(6, engine.use_adapters(folders[1], 2, "continue"))
    reply = await goes_on
    old = reply.versions.count(1)
    assert 4 <= old <= 7
    assert reply.versions == (1,) * old + (2,) * (40 - old)
    before, after = (expected(one, PROMPT, reply.ids) for one in models[:2])
    assert reply.logprobs == pytest.approx(before[:old] + after[old:], abs=1e-4)

    starts_again = asyncio.create_task(engine.generate(ask(PROMPT, 0, LONG)))
    await vllm.after_steps(6, engine.use_adapters(folders[2], 3, "abort"))
    reply = await starts_again
    assert (reply.version, reply.versions) == (3, None)
    assert reply.logprobs == pytest.approx(expected(models[2], PROMPT, reply.ids), abs=1e-4)
    await engine.close()
