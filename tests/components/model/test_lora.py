"""LoRA: merged weights equal the adapted model; initial adapters depend on the seed."""

from dataclasses import replace

import pytest
import torch
from small_shape import QWEN2 as SHAPE

from agentrl_components.errors import ModelError
from agentrl_components.model import lora
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.spec import Lora
from agentrl_components.update.flat_parameters import FlatParameters

LORA = Lora(rank=3, alpha=6, targets=("q_proj", "down_proj"))


def decoder() -> Decoder:
    made = Decoder(SHAPE)
    made.initialise(torch.Generator().manual_seed(1))
    return made.eval()


@torch.no_grad()
def logits(made):
    attend = PackedCausal([6], torch.device("cpu"))
    return made.logits(made(torch.arange(6), attend.positions_N, attend))


def test_new_adapters_change_nothing_and_merged_ones_equal_the_adapted_model():
    made, plain = decoder(), decoder()
    lora.add(made, LORA, seed=0)
    assert torch.equal(logits(made), logits(plain))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.3, generator=torch.Generator().manual_seed(2))
    merged = lora.merged_state_dict(made)
    assert merged.keys() == plain.state_dict().keys()
    plain.load_state_dict(merged)
    assert not torch.allclose(logits(plain), logits(decoder()), atol=1e-3)
    torch.testing.assert_close(logits(plain), logits(made), atol=1e-5, rtol=1e-5)


def test_initial_adapters_depend_on_the_seed_only():
    vectors = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(noise)
        made = decoder()
        lora.add(made, LORA, seed)
        vectors.append(FlatParameters(made).shared.vector)
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])


def test_only_adapters_are_trained():
    made = decoder()
    lora.add(made, LORA, seed=0)
    assert all(".lora_" in name for name, p in made.named_parameters() if p.requires_grad)
    # q_proj: 3 * (16 + 16), down_proj: 3 * (32 + 16), in 2 layers.
    assert FlatParameters(made).shared.vector.numel() == 2 * (96 + 144)


def test_a_small_change_survives_the_merge_in_bfloat16():
    """Adapters that change the weights by 1e-4 of themselves; bfloat16 keeps steps of 4e-3."""
    made = decoder().to(torch.bfloat16)
    base = {name: weight.float() for name, weight in made.state_dict().items()}
    lora.add(made, LORA, seed=0)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 1e-5, generator=torch.Generator().manual_seed(2))
    name = "model.layers.0.self_attn.q_proj.weight"
    change = lora.merged_state_dict(made)[name].float() - base[name]
    delta = (
        dict(made.named_modules())[name.removesuffix(".weight")]
        .get_delta_weight("default")
        .detach()
    )
    assert float(delta.abs().max()) < 1e-3 * float(base[name].abs().max())
    torch.testing.assert_close(change, delta.float(), rtol=1e-2, atol=1e-7)


@pytest.mark.parametrize(
    ("target", "reason"),
    [("lm_head", "is the language-model head"), ("embed_tokens", "is not a linear layer")],
)
def test_the_head_and_the_embedding_are_refused_as_targets(target, reason):
    for tied in (False, True):
        made = Decoder(replace(SHAPE, tied=tied))
        with pytest.raises(ModelError, match=f"targets: {target} cannot have an adapter.*{reason}"):
            lora.add(made, Lora(targets=("q_proj", target)), seed=0)


def test_a_layer_that_shares_its_weight_is_refused_as_a_target():
    made = decoder()
    first, second = made.model.layers
    second.mlp.up_proj.weight = first.mlp.up_proj.weight
    with pytest.raises(ModelError, match=r"targets: up_proj cannot .* another layer has the same"):
        lora.add(made, Lora(targets=("up_proj",)), seed=0)
    lora.add(made, Lora(targets=("down_proj",)), seed=0)


def test_the_product_of_an_adapter_has_the_layout_of_its_weight():
    a, b = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0], [10.0]])
    # 0.5 * B A, where B A is [[1, 2, 3], [10, 20, 30]].
    usual = lora.product(a, b, 0.5, transposed=False)
    assert usual.tolist() == [[0.5, 1.0, 1.5], [5.0, 10.0, 15.0]]
    assert torch.equal(lora.product(a, b, 0.5, transposed=True), usual.T)


def test_dropout_is_that_of_the_adapters_inputs_alone():
    made = decoder()
    made.model.embed_tokens.register_forward_hook(
        lambda part, _, out: torch.nn.functional.dropout(out, 0.5, part.training)
    )
    lora.add(made, LORA.model_copy(update={"dropout": 0.5}), seed=0)
    plain = logits(made)
    lora.set_dropout(made, True)
    assert torch.equal(logits(made), plain)  # the products of new adapters are 0
    for name, parameter in made.named_parameters():
        if "lora_B" in name:
            parameter.data.fill_(0.3)
    assert not torch.equal(logits(made), logits(made))
    lora.set_dropout(made, False)
    assert torch.equal(logits(made), logits(made))


def test_a_layer_that_does_not_exist_is_the_manifests_mistake():
    with pytest.raises(ModelError, match=r"spec\.model\.lora\.targets"):
        lora.add(decoder(), Lora(targets=("nothing",)), seed=0)
