"""The decoder against transformers: the same folder, the same logits."""

import pytest
import torch
from safetensors.torch import save
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import WEIGHTS, export_weights, open_decoder
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.model.shape import read_native

SIZES = {
    "vocab_size": 37,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "llama, tied, one key head": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES | {"num_key_value_heads": 1}, tie_word_embeddings=True)
    ),
    "llama, scaled positions": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, rope_parameters=LLAMA3)
    ),
    "llama, biases": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True)
    ),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES)),
    "qwen2, tied": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3, wide heads": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=16)),
    "qwen3, tied": lambda: Qwen3ForCausalLM(
        Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=True)
    ),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None)),
}
IDS = torch.randint(0, 37, (2, 90), generator=torch.Generator().manual_seed(1))


def theirs(name):
    torch.manual_seed(len(name))
    model = MODELS[name]().eval()
    with torch.no_grad():  # biases and norms begin at 0 and 1, which would hide mistakes
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


@torch.no_grad()
def logits(decoder: Decoder, ids_BT):
    attend = PackedCausal([ids_BT.shape[1]] * len(ids_BT), torch.device("cpu"))
    hidden = decoder(ids_BT.reshape(-1), attend.positions_N, attend)
    return decoder.logits(hidden).view(*ids_BT.shape, -1)


def opened(folder) -> Decoder:
    return open_decoder(folder, torch.float32, torch.device("cpu"))


@pytest.fixture
def folder(tmp_path):
    theirs("llama").save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name, tmp_path):
    model = theirs(name)
    model.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = model(input_ids=IDS).logits
    torch.testing.assert_close(logits(opened(tmp_path), IDS), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama, tied, one key head", "qwen2", "qwen3, wide heads"])
def test_what_we_export_loads_in_transformers_and_gives_the_same_logits(name, tmp_path):
    theirs(name).save_pretrained(tmp_path)
    decoder = opened(tmp_path)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(1.25)
    (tmp_path / WEIGHTS).write_bytes(save(export_weights(decoder), metadata={"format": "pt"}))
    again = AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = again(input_ids=IDS).logits
    torch.testing.assert_close(logits(decoder, IDS), expected, atol=3e-5, rtol=1e-5)


@pytest.mark.parametrize("recomputed", [0, 1, 2])
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3, wide heads"])
def test_tokens_that_are_asked_for_have_the_states_and_gradients_of_a_whole_pass(
    name, recomputed, tmp_path
):
    theirs(name).save_pretrained(tmp_path)
    decoder, rows = opened(tmp_path), torch.tensor([3, 4, 40, 89])
    decoder.recomputed = recomputed
    attend = PackedCausal([50, 40], torch.device("cpu"))
    found = decoder(IDS[0], attend.positions_N, attend, rows)
    whole = decoder(IDS[0], attend.positions_N, attend).index_select(0, rows)
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)
    parameters = dict(decoder.named_parameters())
    gradients, expected = (
        torch.autograd.grad(decoder.logits(hidden).square().mean(), list(parameters.values()))
        for hidden in (found, whole)
    )
    for parameter, one, other in zip(parameters, gradients, expected, strict=True):
        largest = float(other.abs().max())
        assert float((one - other).abs().max()) <= 1e-5 * max(largest, 0.1), parameter


def test_checkpointed_passes_have_the_same_gradient(folder):
    gradients = []
    for recomputed in (0, 1, 2):
        decoder = opened(folder)
        decoder.recomputed = recomputed
        attend = PackedCausal([90], torch.device("cpu"))
        decoder.logits(decoder(IDS[0], attend.positions_N, attend)).square().mean().backward()
        gradients.append([parameter.grad for parameter in decoder.parameters()])
    for plain, *others in zip(*gradients, strict=True):
        assert all(torch.equal(plain, other) for other in others)


def test_random_weights_are_a_function_of_the_seed(folder):
    shape = read_native(folder)
    decoders = [Decoder(shape) for _ in range(3)]
    for decoder, seed in zip(decoders, (1, 1, 2), strict=True):
        decoder.initialise(torch.Generator().manual_seed(seed))
    first, same, other = (d.model.layers[0].self_attn.o_proj.weight for d in decoders)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    # 24 inputs and two layers: residual outputs have a deviation of 1 / sqrt(24 * 4).
    assert float(first.detach().std()) == pytest.approx(0.102, rel=0.1)
