"""Adapters that are handed over alone, merged by who gets them."""

import pytest
import torch
from learner_bench import spec
from safetensors.torch import save_file
from small_shape import LLAMA

from agentrl_components.model.decoder import Decoder
from agentrl_components.sharded.adapters import AdapterMerge

LORA = {"rank": 2, "alpha": 6, "targets": ["q_proj"]}
LAYER = "model.layers.0.self_attn.q_proj"
A = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])
B = torch.tensor([[1.0, 0.0], [0.0, 3.0]])


def merge_into(folder, base, transposed=()):
    with torch.device("meta"):
        decoder = Decoder(LLAMA)
    decoder.transposed = frozenset(transposed)
    base = {f"{LAYER}.weight": base, "model.norm.weight": torch.ones(3)}
    save_file(base, folder / "model.safetensors")
    return AdapterMerge(folder, spec(model={"lora": LORA}), decoder)


@pytest.fixture
def merge(tmp_path):
    return merge_into(tmp_path, torch.ones(2, 3))


def test_the_product_is_scaled_by_alpha_over_rank_and_added_to_the_base_weight(merge):
    pair = [(f"{LAYER}.lora_A.default.weight", A), (f"{LAYER}.lora_B.default.weight", B)]
    ((name, weight),) = merge.merged(pair)
    assert name == f"{LAYER}.weight"
    # 1 + 3 * B A, where B A = [[1, 0, 2], [0, 3, 0]].
    assert weight.tolist() == [[4.0, 1.0, 7.0], [1.0, 10.0, 1.0]]


def test_an_adapter_waits_for_its_partner_in_a_later_bucket(merge):
    assert list(merge.merged([(f"{LAYER}.lora_B.default.weight", B)])) == []
    ((_, weight),) = merge.merged([(f"{LAYER}.lora_A.default.weight", A)])
    assert weight[1].tolist() == [1.0, 10.0, 1.0]
    assert list(merge.merged([])) == []


def test_the_product_is_transposed_as_its_weight_is(tmp_path):
    merge = merge_into(tmp_path, torch.ones(3, 2), {f"{LAYER}.weight"})
    pair = [(f"{LAYER}.lora_A.default.weight", A), (f"{LAYER}.lora_B.default.weight", B)]
    ((_, weight),) = merge.merged(pair)
    assert weight.tolist() == [[4.0, 1.0], [1.0, 10.0], [7.0, 1.0]]
