"""One rank with a model of transformers: the bits of the model without shards."""

import pytest
import torch
from foreign_models import save_model
from learner_bench import episode
from safetensors.torch import load_file, save_file

from agentrl_components.errors import ModelError
from agentrl_components.model.load import WEIGHTS, export_weights, open_decoder
from agentrl_components.sharded.adapters import AdapterMerge
from agentrl_components.sharded.rounds import deal
from agentrl_components.update.logprobs import score
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import Imitation, ValueRegression
from agentrl_components.update.packing import example

EPISODES = [episode(n, float(n % 2), group=n // 2, reply=(9 + n,) * (n + 1)) for n in range(6)]
# Untied; tied with windows and an embedding that is scaled by a buffer; one key head and tied;
# buffers that are saved.
FAMILIES = ("gpt_neox", "gemma3_text", "falcon", "gemma4_text")


def examples():
    return [example(e, {"weight": e.logprobs[e.mask] * 0 + 1}) for e in EPISODES]


def weights(rank):
    return {n: t for bucket in rank.buckets(1 << 20) for n, t in bucket.tensors()}


@pytest.mark.parametrize("divided", [False, True], ids=["copied weights", "fsdp2"])
@pytest.mark.parametrize("family", FAMILIES)
def test_one_rank_gives_the_bits_of_the_model_without_shards(family, divided, open_rank, tmp_path):
    save_model(family, tmp_path)
    plain = open_decoder(tmp_path, torch.float32, torch.device("cpu"))
    # transformers leaves weights where the file has them. Products of few rows round by the address
    # of the weights, and those of a rank are in memory of their own.
    for parameter in plain.parameters():
        parameter.data = parameter.data.clone()
    rank = open_rank(tmp_path, divided=divided, update={"gradientCheckpointing": True})
    some = examples()
    exported = export_weights(plain)
    start = weights(rank)
    assert start.keys() == exported.keys()
    assert all(torch.equal(start[name], tensor) for name, tensor in exported.items())
    asked = Imitation(total_weight=21.0, chunk=4)
    for _ in range(2):
        plain.zero_grad()
        rank.differentiate(asked, deal(some, 16, 1)[0])
        for pack in deal(some, 16, 1)[0].packs:
            asked(plain, pack)[0].backward()
        found = {n: p.grad.full_tensor() for n, p in rank.policy.named_parameters()}
        for name, parameter in plain.named_parameters():
            assert torch.equal(found[name], parameter.grad), name
        rank.step("policy", 1e-2)
        moved = dict(rank.policy.named_parameters())
        for name, parameter in plain.named_parameters():
            parameter.data.copy_(moved[name].full_tensor())


@pytest.mark.parametrize("divided", [False, True], ids=["copied weights", "fsdp2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_buffers_that_are_saved_with_the_weights_are_read_and_handed_over(
    dtype, divided, open_rank, tmp_path
):
    save_model("gemma4_text", tmp_path)
    saved = load_file(tmp_path / WEIGHTS)
    scalars = [name for name in saved if name.endswith("layer_scalar")]
    assert len(scalars) == 2
    for number, name in enumerate(scalars):
        saved[name] = torch.tensor([0.3 + number])
    save_file(saved, tmp_path / WEIGHTS, metadata={"format": "pt"})
    algorithm = {"name": "ppo"}
    rank = open_rank(tmp_path, divided=divided, model={"dtype": dtype}, algorithm=algorithm)
    rank.set_start()
    handed = weights(rank)
    assert handed.keys() == saved.keys() == rank.meta_weights().keys()
    for name in scalars:
        assert torch.equal(handed[name], saved[name])
        assert torch.equal(rank.policy.get_buffer(name), saved[name])
        assert torch.equal(rank.critic.decoder.get_buffer(name), saved[name])
        assert rank.meta_weights()[name].dtype == saved[name].dtype
    some = deal(examples(), 64, 1)[0]
    rank.differentiate(Imitation(total_weight=21.0, chunk=64), some)
    assert rank.step("policy", 0.1) > 0
    assert torch.equal(weights(rank)[scalars[0]], saved[scalars[0]])


def test_bfloat16_and_adapters_have_float32_masters_and_exact_buffers(open_rank, tmp_path):
    save_model("gemma3_text", tmp_path)
    adapters = {"rank": 2, "alpha": 4, "targets": ["q_proj", "down_proj"]}
    for lora in (None, adapters):
        rank = open_rank(tmp_path, model={"dtype": "bfloat16", "lora": lora})
        exact = dict(open_decoder(tmp_path, torch.float32, torch.device("cpu")).named_buffers())
        for name, buffer in rank.policy.named_buffers():
            assert torch.equal(buffer, exact[name]), name
        start, some = weights(rank), examples()
        rank.differentiate(Imitation(total_weight=21.0, chunk=64), deal(some, 16, 1)[0])
        assert rank.step("policy", 0.1) > 0
        trained = [p for p in rank.policy.parameters() if p.requires_grad]
        assert {p.dtype for p in trained} == {torch.float32}
        after = weights(rank)
        moved = {name for name in after if not torch.equal(after[name], start[name])}
        assert moved
        if lora is not None:
            assert all(name.endswith(("q_proj.weight", "down_proj.weight")) for name in moved)
        rank.leave()
        rank.leave = lambda: None


def test_the_merged_weights_of_layers_that_are_transposed_compute_what_the_rank_computes(
    open_rank, tmp_path
):
    save_model("gpt2", tmp_path)
    adapters = {"rank": 2, "alpha": 4, "targets": ["c_attn", "attn.c_proj"]}
    rank = open_rank(tmp_path, model={"lora": adapters})
    some = deal(examples(), 64, 1)[0]
    for _ in range(2):  # the first step changes B alone
        rank.differentiate(Imitation(total_weight=21.0, chunk=64), some)
        rank.step("policy", 0.05)
    trained = torch.cat(rank.logprobs(some, reference=False))
    own = [item for b in rank.buckets(1 << 20, adapters=True) for item in b.tensors()]
    merged = weights(rank)
    for name, weight in AdapterMerge(tmp_path, rank.spec, rank.policy).merged(own):
        assert torch.equal(weight, merged[name])
    save_file(merged, tmp_path / WEIGHTS, metadata={"format": "pt"})
    handed = open_decoder(tmp_path, torch.float32, torch.device("cpu"))
    with torch.no_grad():
        found = torch.cat([score(handed, pack, 64)[0] for pack in some.packs])
    torch.testing.assert_close(found, trained, rtol=1e-4, atol=1e-5)


def test_dropout_of_adapters_leaves_the_models_own_off(open_rank, tmp_path):
    save_model("gpt2", tmp_path)  # it has dropout of 0.1
    adapters = {"rank": 2, "targets": ["c_attn"], "dropout": 0.5}
    correction = {"importanceSampling": {"mode": "truncate"}}
    rank = open_rank(tmp_path, model={"lora": adapters}, algorithm=correction)
    some = deal(examples(), 64, 1)[0]
    loss = rank.differentiate(Imitation(total_weight=21.0, chunk=64), some)["loss"]
    # The products of new adapters are 0.
    assert loss == pytest.approx(-float(torch.cat(rank.logprobs(some, reference=False)).sum()))


# OPT has hidden states of another width.
@pytest.mark.parametrize("family", ["gpt_neox", "opt"])
def test_a_critic_learns_and_takes_the_policy_as_its_trunk(open_rank, tmp_path, family):
    save_model(family, tmp_path)
    rank = open_rank(tmp_path, algorithm={"name": "ppo"})
    some = [
        example(e, {"value": e.logprobs[e.mask] * 0, "return": e.logprobs[e.mask] * 0 + 1})
        for e in EPISODES
    ]
    regression = ValueRegression(
        value_clip=10.0, denominators=Denominators(tokens=21, episodes=6, token_limit=64)
    )
    for _ in range(2):
        rank.differentiate(regression, deal(some, 16, 1)[0])
        assert rank.step("critic", 0.1) > 0
    rank.set_start()
    trunk = dict(rank.critic.decoder.named_parameters())
    policy = dict(rank.policy.named_parameters())
    assert all(torch.equal(trunk[n].full_tensor(), p.full_tensor()) for n, p in policy.items())


def test_masks_that_earlier_versions_of_transformers_saved_are_not_read(open_rank, tmp_path):
    save_model("gpt2", tmp_path)
    saved = load_file(tmp_path / WEIGHTS)
    masks = {f"transformer.h.{layer}.attn.bias": torch.ones(1, 1, 128, 128) for layer in range(2)}
    save_file(saved | masks, tmp_path / WEIGHTS, metadata={"format": "pt"})
    assert weights(open_rank(tmp_path)).keys() == saved.keys()


def test_weights_that_the_model_does_not_have_are_refused(open_rank, tmp_path):
    save_model("gpt2", tmp_path)
    saved = load_file(tmp_path / WEIGHTS) | {"more.bias": torch.ones(1)}
    save_file(saved, tmp_path / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"unknown \['more.bias'\]"):
        open_rank(tmp_path)
