"""The torch engine with models of transformers: their own caches, kept over turns."""

import asyncio

import pytest
import torch
from foreign_models import ARCHITECTURES, save_model
from tiny_qwen import LOOSE, ask, expected

from agentrl_components.engines.torch_engine.engine import TorchEngine
from agentrl_components.model.load import export_weights, open_decoder

PROMPT, OBSERVATION = (5, 6, 7, 8, 9, 10, 11, 12, 13), (20, 21, 22)


def opened(folder):
    return open_decoder(folder, torch.float32, torch.device("cpu"), "transformers")


async def two_turns(engine):
    first = await engine.generate(ask(PROMPT, 1, LOOSE))
    history = (*PROMPT, *first.ids, *OBSERVATION)
    second = await engine.generate(ask(history, 2, LOOSE))
    await engine.release(0)
    return first, second


@pytest.mark.parametrize("family", [*ARCHITECTURES, "qwen2", "mamba"])
def test_two_turns_have_the_logprobs_that_transformers_computes(family, tmp_path):
    theirs = save_model(family, tmp_path)
    first, second = asyncio.run(two_turns(TorchEngine(opened(tmp_path))))
    assert first.logprobs == pytest.approx(expected(theirs, PROMPT, first.ids), abs=1e-4)
    history = (*PROMPT, *first.ids, *OBSERVATION)
    assert second.logprobs == pytest.approx(expected(theirs, history, second.ids), abs=1e-4)


def test_new_weights_are_taken_by_the_names_that_transformers_saves(tmp_path):
    save_model("gpt_neox", tmp_path)
    model, other = opened(tmp_path), opened(tmp_path)
    for parameter in other.parameters():
        parameter.data.mul_(1.5)

    async def loaded():
        engine = TorchEngine(model)
        before = await two_turns(engine)
        await engine.load(export_weights(other), 1)
        return before, await two_turns(engine)

    before, after = asyncio.run(loaded())
    assert after[0].version == 1
    assert after[0].logprobs != before[0].logprobs
    assert [g.logprobs for g in asyncio.run(two_turns(TorchEngine(other)))] == [
        g.logprobs for g in after
    ]


def test_a_reply_does_not_depend_on_the_others_in_the_batch(tmp_path):
    save_model("phi3", tmp_path)

    async def together(count):
        engine = TorchEngine(opened(tmp_path))
        asked = [ask(PROMPT[: 9 - n], n, LOOSE) for n in range(count)]
        requests = [type(one)(**_fields(one) | {"session": n}) for n, one in enumerate(asked)]
        return await asyncio.gather(*map(engine.generate, requests))

    assert asyncio.run(together(4))[0] == asyncio.run(together(1))[0]


def _fields(request):
    return {name: getattr(request, name) for name in request.__dataclass_fields__}
