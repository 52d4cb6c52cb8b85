"""The compiled forward pass computes what the decoder computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_engine import first_logits
from small_shape import LLAMA, QWEN2

from agentrl_components.engines.torch_engine.batch import Batch
from agentrl_components.engines.torch_engine.kernels.forward import KernelForward
from agentrl_components.engines.torch_engine.kv_cache import SlotCache
from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.engines.torch_engine.slot_passes import SlotPasses
from agentrl_components.model import lora
from agentrl_components.model.decoder import Decoder
from agentrl_components.spec.fields.model import Lora

SHAPES = {
    "llama": LLAMA,
    "qwen2": replace(QWEN2, heads=6, kv_heads=2),
    "qwen3": replace(LLAMA, family="qwen3", normed=True, head_width=20, heads=3, kv_heads=3),
    "all biases": replace(LLAMA, qkv_bias=True, out_bias=True, mlp_bias=True, hidden=72),
}
TURNS = (
    # New tokens of three sessions in each of four passes; none: the session takes no part.
    ([3, 5, 7, 9], [4], [2, 2, 6]),
    ([1], [], [8, 1, 1, 1, 1, 1, 2]),
    ([], [11, 12, 13, 14, 15, 16, 17, 18], [3]),
    ([6], [6], [6]),
)


def model(shape, scale=2.0):
    made = Decoder(shape)
    made.initialise(torch.Generator().manual_seed(3))
    with torch.no_grad():  # biases and norms that matter, and attention that is far from uniform
        for number, parameter in enumerate(made.parameters()):
            if parameter.dim() > 1:
                parameter.mul_(scale)
            else:
                parameter.add_(0.1 * torch.arange(len(parameter)).add(number).sin())
    return made.eval()


@torch.inference_mode()
def played(made, kernels):
    """Logits after each turn of each session, and the tokens that they follow."""
    passes = SlotPasses(made, kernels=kernels)
    sessions, said, found = [Session(slot) for slot in (2, 0, 5)], [[], [], []], []
    for turn in TURNS:
        rows = [row for row, ids in enumerate(turn) if ids]
        logits_BV = passes.logits([turn[row] for row in rows], [sessions[row] for row in rows])
        for row, logits_V in zip(rows, logits_BV, strict=False):
            said[row] += turn[row]
            sessions[row].cached += len(turn[row])
            found.append((list(said[row]), logits_V))
    return found


@pytest.mark.parametrize("kernels", [True, False], ids=["compiled", "torch"])
@pytest.mark.parametrize("family", SHAPES)
def test_passes_over_a_cache_give_the_logits_of_the_whole_sequence(family, kernels):
    made = model(SHAPES[family])
    for ids, logits_V in played(made, kernels):
        torch.testing.assert_close(logits_V, first_logits(made, ids), rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_parameters_are_read_again_once_they_are_forgotten():
    made = model(LLAMA)
    passes = SlotPasses(made, kernels=True)
    before = passes.logits([[3, 4]], [Session(0)])
    made.model.layers[0].mlp.up_proj.weight.mul_(0.0)
    passes.forget_weights()
    after = passes.logits([[3, 4]], [Session(0)])
    torch.testing.assert_close(after[0], first_logits(made, [3, 4]), rtol=1e-4, atol=1e-4)
    assert (after - before).abs().max() > 0.1


def test_adapters_take_part():
    made = model(LLAMA)
    before = played(made, kernels=True)[-1][1]
    lora.add(made, Lora(rank=2, targets=("q_proj", "down_proj")), seed=0)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.3)
    ids, after = played(made, kernels=True)[-1]
    assert (after - before).abs().max() > 0.1
    torch.testing.assert_close(after, first_logits(made, ids), rtol=1e-4, atol=1e-4)


def test_a_bfloat16_model_is_sampled_in_float32():
    made = model(QWEN2, scale=1.0).to(torch.bfloat16)
    made.reset_frequencies(torch.device("cpu"))
    for ids, logits_V in played(made, kernels=True):
        assert logits_V.dtype == torch.float32
        expected_V = first_logits(made, ids).float()
        torch.testing.assert_close(logits_V.float(), expected_V, rtol=0.05, atol=0.05)


@torch.inference_mode()
def test_memory_that_was_never_written_is_not_read():
    """It may hold anything, infinities of a diverged policy's session too."""
    made = model(LLAMA)
    cache = SlotCache(2, 1, 8, lambda shape: torch.full(shape, torch.nan))
    none = np.empty(0, dtype=np.int64)
    batch = Batch(
        sizes_B=np.array([3, 11]),
        starts_B=np.array([0, 0]),
        slots_B=np.array([4, 1]),
        copies=(none, none),
    )
    cache.fit(batch.slots, batch.tokens)
    assert torch.isfinite(KernelForward(made, cache)(torch.arange(14), batch)).all()
