from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import torch
from qwen import QWEN3_06B, QWEN_7B, TOY

from agentrl_components.engines.vllm_engine.start import CPU_CACHE_BYTES
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal
from agentrl_components.sharded.passes.pass_memory import (
    PassSize,
    Recomputation,
    activation_bytes,
    kept_bytes,
)
from agentrl_components.spec import RunSpec
from agentrl_components.update.flat_parameters import LANES
from agentrl_pipelines.sizing import trainer_memory as trainer
from agentrl_pipelines.sizing.devices import DEVICES, GIB, Device
from agentrl_pipelines.sizing.layout import Layout
from agentrl_pipelines.sizing.model_size import model_size
from agentrl_pipelines.sizing.sampler_memory import sampler_memory

ROOT = Path(__file__).parents[3]
ONE = Layout(
    ranks=1, sharded=False, engines=1, tensor_parallel=1, memory_share=0.5, shared_device=True
)
FOUR = Layout(
    ranks=4, sharded=True, engines=2, tensor_parallel=2, memory_share=0.9, shared_device=False
)

ON_CPU = replace(FOUR, tensor_parallel=1, one_machine=True)
CPU = Device(name="cpu", memory=32 << 30, flops=0, bandwidth=0)
VLLM = {"engine": "vllm"}


def _spec(**fields) -> RunSpec:
    return RunSpec.model_validate(
        {
            "environments": [{"name": "rooms", "builtin": "corridor"}],
            "horizon": {"phases": [{"maxTurns": 4, "iterations": 1}]},
            **fields,
        }
    )


def _saved_bytes(tokens: int) -> int:
    """What autograd keeps of a forward pass of TOY in float32, without the parameters."""
    decoder = Decoder(TOY)
    decoder.initialise(torch.Generator().manual_seed(0))
    own = {p.untyped_storage().data_ptr() for p in decoder.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    attend = PackedCausal([tokens], torch.device("cpu"))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        decoder(torch.zeros(tokens, dtype=torch.long), attend.positions_N, attend)
    return sum(t.untyped_storage().nbytes() for key, t in kept.items() if key not in own)


def test_activations_are_what_autograd_keeps():
    spec = _spec(model={"context": 256}, update={"microBatchTokens": 256})
    # On a CPU a feed-forward block computes silu(gate) again, which torch keeps. The input of the
    # last norm belongs to no block.
    computed_again = 256 * 4 * TOY.layers * TOY.intermediate
    kept = activation_bytes(spec, TOY, PassSize(tokens=256), Recomputation())
    expected = kept - computed_again + 256 * 4 * TOY.hidden
    assert abs(_saved_bytes(256) - expected) < 0.01 * expected


def test_with_checkpointing_a_block_keeps_its_input_and_one_block_keeps_all():
    spec = _spec(
        model={"context": 256}, update={"microBatchTokens": 100, "gradientCheckpointing": True}
    )
    block = 4 * 128 + (2 * 8 + 2 * 2) * 16 + 4 * 384
    # An episode of 256 tokens is longer than a pack of 100.
    memory = trainer.trainer_memory(spec, TOY, model_size(TOY), ONE)
    assert memory.activations == 256 * 4 * (4 * 128 + block)
    assert memory.again == Recomputation(blocks=4)


def test_sharded_trainers_on_gpus_recompute_as_few_blocks_as_their_memory_demands():
    spec = _spec(
        model={"dtype": "bfloat16", "context": 1000},
        update={"gradientCheckpointing": True},
        compute={"ray": "embedded"},
    )
    size = model_size(TOY)
    least = trainer.trainer_memory(spec, TOY, size, FOUR)
    assert least.again == Recomputation(blocks=4)
    # Packs have 4,096 tokens: the input of a block takes 2 bytes of each of 128 numbers, and a
    # block keeps 2 bytes of each of 2,048 numbers, and of 320 in the attention, padded 1.8 times.
    inputs, block = 4096 * 2 * 128, 4096 * 2 * (2048 + 576)
    for kept, recomputed in ((4 * block, 0), (2 * block + 2 * inputs, 2), (block, 4)):
        room = replace(least, activations=0, kept=kept).total
        enough = trainer.trainer_memory(spec, TOY, size, FOUR, math.ceil((room + 1) / 0.9))
        assert enough.again == Recomputation(blocks=recomputed)
        less = trainer.trainer_memory(spec, TOY, size, FOUR, math.floor((room - 1) / 0.9))
        assert less.again == Recomputation(blocks=min(4, recomputed + 1))


def test_compiled_blocks_recompute_what_is_cheap_before_whole_blocks_do():
    spec = _spec(
        model={"dtype": "bfloat16", "context": 1000},
        update={"gradientCheckpointing": True, "compile": True},
        compute={"ray": "embedded"},
    )
    size = model_size(TOY)
    least = trainer.trainer_memory(spec, TOY, size, FOUR)
    # Of the feed-forward block two arrays of 384, of the hidden states two of 128; queries, keys
    # and values before attention, its output, and the output again with padding.
    block = 4096 * 2 * (2 * 384 + 2 * 128 + 128 + 2 * 32 + 128 + 230)
    room = replace(least, activations=0, kept=4 * block).total
    enough = trainer.trainer_memory(spec, TOY, size, FOUR, math.ceil((room + 8192) / 0.9))
    assert enough.again == Recomputation(blocks=0, selective=True)
    less = trainer.trainer_memory(spec, TOY, size, FOUR, math.floor((room - 8192) / 0.9))
    assert less.again == Recomputation(blocks=1, selective=True)


def test_blocks_of_unknown_form_and_in_float32_all_recompute():
    size, update = model_size(TOY), {"gradientCheckpointing": True}
    for spec, layout in (
        (_spec(update=update), FOUR),
        (_spec(model={"dtype": "bfloat16"}, update=update), ONE),
        (_spec(model={"dtype": "bfloat16"}, update=update), ON_CPU),
    ):
        memory = trainer.trainer_memory(spec, TOY, size, layout, 79 * GIB)
        assert memory.again == Recomputation(blocks=4)


def test_a_trainer_alone_holds_26_bytes_a_parameter_in_bfloat16_beside_a_step():
    size = model_size(QWEN_7B)
    memory = trainer.trainer_memory(_spec(model={"dtype": "bfloat16"}), QWEN_7B, size, ONE)
    # Master and copy, two lanes and their sum, two moments.
    assert memory.weights == 6 * size.total
    assert memory.gradients == 12 * size.total == 4 * (LANES + 1) * size.total
    assert memory.moments == 8 * size.total
    assert memory.reference == memory.critic == 0


def test_sharded_trainers_divide_16_bytes_a_parameter_and_gather_two_blocks():
    size = model_size(QWEN_7B)
    memory = trainer.trainer_memory(_spec(model={"dtype": "bfloat16"}), QWEN_7B, size, FOUR)
    # Embedding and head of 152,064 x 3,584, and the last norm, stay gathered.
    assert size.root == 2 * 152_064 * 3_584 + 3_584
    gathered = size.block * 10 + size.root * 6
    assert memory.weights == size.total + gathered
    assert memory.gradients == size.total
    assert memory.moments == 2 * size.total


def test_ranks_on_cpus_hold_weights_and_gradients_of_small_models_whole():
    cpus, spec = replace(FOUR, one_machine=True), _spec(model={"dtype": "bfloat16"})
    for shape, small in ((TOY, True), (QWEN3_06B, False)):
        size = model_size(shape)
        on_gpus, on_cpus = (trainer.trainer_memory(spec, shape, size, on) for on in (FOUR, cpus))
        assert on_cpus.weights - on_gpus.weights == small * 2 * (size.total - size.root)
        assert on_cpus.gradients - on_gpus.gradients == small * 4 * size.total
    alone = (replace(FOUR, ranks=1, one_machine=way) for way in (False, True))
    one, other = (trainer.trainer_memory(spec, TOY, model_size(TOY), on).weights for on in alone)
    assert one == other


def test_a_sparse_hand_over_adds_two_bytes_a_parameter_over_all_ranks():
    size = model_size(QWEN_7B)
    model, compute = {"dtype": "bfloat16"}, {"ray": "embedded"}
    whole = trainer.trainer_memory(_spec(model=model, compute=compute), QWEN_7B, size, FOUR)
    sparse = trainer.trainer_memory(
        _spec(model=model, compute=compute | {"sparseHandOver": True}), QWEN_7B, size, FOUR
    )
    assert sparse.weights - whole.weights == 2 * size.total / 4
    assert sparse.total - whole.total == 2 * size.total / 4


def test_the_reference_policy_and_the_critic_are_counted_where_the_algorithm_has_them():
    spec = _spec(algorithm={"name": "ppo", "kl": {"coefficient": 0.001}})
    size = model_size(TOY)
    memory = trainer.trainer_memory(spec, TOY, size, ONE)
    assert memory.reference == 4 * size.total
    assert memory.critic == memory.weights + memory.gradients + memory.moments


def test_keys_and_values_of_a_token_of_the_7b_model_take_57_kib():
    spec, size = _spec(model={"dtype": "bfloat16"}, rollout=VLLM), model_size(QWEN_7B)
    engine = sampler_memory(spec, QWEN_7B, size, ONE, DEVICES["h100"], [])
    assert engine.token == 2 * 28 * 4 * 128 * 2 == 57_344
    assert engine.cache == int(79 * GIB * 0.5) - 2 * size.total - (2 << 30)
    assert engine.episodes(8192) == engine.cache // (57_344 * 8192)


def test_tensor_parallel_divides_weights_and_keys():
    spec, size = _spec(model={"dtype": "bfloat16"}, rollout=VLLM), model_size(QWEN_7B)
    engine = sampler_memory(spec, QWEN_7B, size, FOUR, DEVICES["h100"], [])
    assert engine.weights == size.total
    assert engine.token == 57_344 // 2


def test_tensor_parallel_does_not_divide_a_latent_vector():
    spec, size = _spec(model={"dtype": "bfloat16"}, rollout=VLLM), model_size(QWEN_7B)
    latent = replace(QWEN_7B, latent=512 + 64)
    for layout in (ONE, FOUR):
        engine = sampler_memory(spec, latent, size, layout, DEVICES["h100"], [])
        assert engine.token == 28 * 576 * 2


def test_vllm_on_a_cpu_has_a_cache_of_256_mib():
    spec, size = _spec(rollout=VLLM), model_size(TOY)
    engine = sampler_memory(spec, TOY, size, ON_CPU, CPU, [])
    assert engine.cache == CPU_CACHE_BYTES == 256 << 20
    assert engine.total == 4 * size.total + (1 << 29) + (256 << 20)


def test_adapters_are_merged_in_float32_or_beside_the_weights_in_vllm_on_ray():
    lora = {"rank": 4, "targets": ("q_proj",)}
    fields = {"model": {"dtype": "bfloat16", "lora": lora}, "rollout": VLLM}
    alone, on_ray = _spec(**fields), _spec(**fields, compute={"ray": "embedded"})
    size = model_size(QWEN_7B, alone.model.lora)
    # 28 layers, rank x (inputs + outputs) of the queries.
    assert size.trainable == 28 * 4 * (3584 + 3584)
    merged = sampler_memory(alone, QWEN_7B, size, ONE, DEVICES["h100"], [])
    beside = sampler_memory(on_ray, QWEN_7B, size, ONE, DEVICES["h100"], [])
    assert merged.weights == 4 * 7_615_616_512
    assert beside.weights == 2 * (7_615_616_512 + size.trainable)


def test_an_update_with_selective_blocks_took_the_memory_that_is_counted():
    """`benchmarks/gpu.py` on an H100, check `mfu_65k_compiled`: weights stayed gathered, and the
    logits of 16 episodes of 2,049 sampled tokens each were kept."""
    measured = json.loads((ROOT / "docs/measurements/gpu.json").read_text())
    checks = {one["name"]: one["figures"] for one in measured["checks"]}
    spec = _spec(model={"dtype": "bfloat16"}, update={"compile": True})
    size, again = model_size(QWEN3_06B), Recomputation(selective=True)
    kept = kept_bytes(spec, QWEN3_06B, PassSize(tokens=65536), again)
    # Master weights, gradients, moments and gathered weights; the gradient of the embedding.
    state = 18 * size.total + 2 * size.root
    logits = 16 * 2049 * QWEN3_06B.vocabulary * 2
    peak = checks["mfu_65k_compiled"]["peak_gib"] * GIB
    assert 0.95 * (state + kept + logits) <= peak <= state + kept + logits


def test_an_update_took_at_most_the_planned_memory_of_a_gpu_and_at_least_four_fifths():
    """`benchmarks/gpu.py` on an H100: a Qwen3 of 0.6 B parameters, episodes of 4,096 tokens."""
    measured = json.loads((ROOT / "docs/measurements/gpu.json").read_text())
    checks = {one["name"]: one["figures"] for one in measured["checks"]}
    size, alone = model_size(QWEN3_06B), replace(FOUR, ranks=1)
    for name, tokens, recomputed in (("mfu_16k", 16384, False), ("mfu_65k", 65536, True)):
        spec = _spec(
            model={"dtype": "bfloat16", "context": 4096},
            update={"microBatchTokens": tokens, "gradientCheckpointing": recomputed},
        )
        planned = trainer.trainer_memory(spec, QWEN3_06B, size, alone).total
        peak = checks[name]["peak_gib"] * GIB
        # torch counts its tensors, not the CUDA context and fragmentation.
        assert 0.8 * (planned - trainer.RESERVE) <= peak <= planned, name
