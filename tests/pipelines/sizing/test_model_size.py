from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from qwen import QWEN_3B, QWEN_7B, TOY

from agentrl_components.model import lora as adapters
from agentrl_components.model.decoder import Decoder
from agentrl_components.spec import Lora
from agentrl_pipelines.sizing.model_size import model_size


def test_the_parameters_of_qwen_are_those_that_are_published():
    assert model_size(QWEN_3B).total == 3_085_938_688
    assert model_size(QWEN_7B).total == 7_615_616_512


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mlp_bias": True},
        {"qkv_bias": False, "out_bias": True},
        {"normed": True},
        {"tied": True},
    ],
)
def test_the_count_is_that_of_the_decoder_that_is_built(options):
    shape = replace(TOY, **options)
    with torch.device("meta"):
        built = Decoder(shape)
    size = model_size(shape)
    assert size.total == size.trainable == sum(p.numel() for p in built.parameters())
    assert size.block == sum(p.numel() for p in built.model.layers[0].parameters())
    assert size.embedding == 64 * 128


def test_with_lora_only_the_adapters_that_peft_adds_are_trained():
    settings = Lora(rank=4, targets=("q_proj", "k_proj", "down_proj"))
    built = Decoder(TOY)
    adapters.add(built, settings, seed=0)
    size = model_size(TOY, settings)
    assert size.total == sum(p.numel() for p in built.parameters())
    # rank x (inputs + outputs): q 128 + 128, k 128 + 32, down 384 + 128, in each of 4 blocks.
    assert size.trainable == 4 * 4 * (256 + 160 + 512)
    assert size.trainable == sum(p.numel() for p in built.parameters() if p.requires_grad)
