"""Changes of some entries of the weights of a real vLLM. Slow: vLLM takes 10 s to start.

On CPUs vLLM packs the weights of its layers, and cannot change entries of them. Here it does not
pack them, as on GPUs."""

import pytest
import torch
from needs_vllm import NEEDS_VLLM
from tiny_qwen import CONTEXT, LOOSE, ask, expected, make_model

from agentrl_components.engines.vllm_engine.engine import VllmEngine
from agentrl_components.engines.vllm_engine.start import VllmOptions
from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.errors import EngineError

pytestmark = [*NEEDS_VLLM, pytest.mark.slow]

PROMPT = [5, 6, 7]
ATTENTION, MLP = "model.layers.0.self_attn", "model.layers.1.mlp"
CHANGED = (
    "model.embed_tokens.weight",  # which is the head too
    "model.norm.weight",
    f"{ATTENTION}.q_proj.weight",  # packed with those of keys and values
    f"{ATTENTION}.v_proj.weight",
    f"{ATTENTION}.v_proj.bias",
    f"{MLP}.up_proj.weight",  # packed with that of the gate
    f"{MLP}.down_proj.weight",
)


@pytest.fixture
def model(tmp_path, monkeypatch):
    import vllm._custom_ops

    monkeypatch.setattr(vllm._custom_ops, "_supports_onednn", False)
    made = make_model(0)
    made.save_pretrained(tmp_path)
    return made


@torch.no_grad()
def change(model, name, every):
    """Change every so many entries of a weight of the model, and say which."""
    weight = model.get_parameter(name)
    indices = torch.arange(1, weight.numel(), every, dtype=torch.int32)
    values = weight.view(-1)[indices.long()] + 0.5
    weight.view(-1)[indices.long()] = values
    return WeightChange(name=name, shape=tuple(weight.shape), indices=indices, values=values)


async def test_changed_entries_give_the_replies_of_the_new_weights(model, tmp_path):
    engine = VllmEngine(tmp_path, VllmOptions(context=CONTEXT, cache_bytes=16 << 20))
    try:
        assert await logprobs(engine, 0) == await by_transformers(model, engine)
        for version in (1, 2):
            before = await logprobs(engine, version - 1)
            await engine.start_update("continue", changes=True)
            for name in CHANGED:
                await engine.change([change(model, name, every=7)])
            await engine.finish_update(version)
            assert await logprobs(engine, version) == await by_transformers(model, engine)
            assert await logprobs(engine, version) != before
        # All weights can still be loaded after them.
        other = make_model(1)
        named = {n: p for n, p in other.state_dict().items() if n != "lm_head.weight"}
        await engine.load(named, 3)
        assert await logprobs(engine, 3) == await by_transformers(other, engine)
        wrong = WeightChange(
            name="model.norm.weight",
            shape=(9,),
            indices=torch.zeros(1, dtype=torch.int32),
            values=torch.ones(1),
        )
        await engine.start_update(changes=True)
        with pytest.raises(EngineError, match=r"model\.norm\.weight has shape \(9,\), not \(128,"):
            await engine.change([wrong])
    finally:
        await engine.close()


async def reply(engine):
    return await engine.generate(ask(PROMPT, 0, LOOSE))


async def logprobs(engine, version):
    found = await reply(engine)
    assert found.version == version
    return pytest.approx(found.logprobs, abs=1e-4)


async def by_transformers(model, engine):
    return tuple(expected(model, PROMPT, (await reply(engine)).ids))
