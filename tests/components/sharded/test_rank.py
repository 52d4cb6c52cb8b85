"""One rank in this process: the same bits as the decoder without shards."""

import math
import re
from pathlib import Path

import pytest
import torch
from learner_bench import EIGHT, GROUP, Bench, as_sampled, spec
from torch.overrides import TorchFunctionMode

from agentrl_components.errors import ModelError, StoreError
from agentrl_components.model.load import open_decoder
from agentrl_components.sharded.adapters import AdapterMerge
from agentrl_components.sharded.rank import Rank, RankSetup
from agentrl_components.sharded.rounds import deal
from agentrl_components.sharded.weight_files import WeightFiles
from agentrl_components.update.losses.normalise import Denominators
from agentrl_components.update.objectives import PolicyGradient, ValueRegression
from agentrl_components.update.packing import example


def examples(**extra):
    out = []
    for episode in EIGHT:
        count = int(episode.mask.sum())
        columns = {
            "sampler": episode.logprobs[episode.mask],
            "advantage": episode.logprobs[episode.mask] * 0 + (1.0 if episode.success else -1.0),
        }
        assert count == len(columns["sampler"])
        out.append(example(episode, columns | {k: v(count) for k, v in extra.items()}))
    return out


def objective(of):
    total = sum(len(e.sampled) for e in of)
    return PolicyGradient(
        algorithm=spec().algorithm,
        denominators=Denominators(tokens=total, episodes=len(of), token_limit=64),
        chunk=16,
        unmoved=True,
    )


def share(of):
    return deal(of, 16, 1)[0]


def gradients(rank):
    return {n: p.grad.full_tensor() for n, p in rank.policy.named_parameters()}


def weights(rank):
    return {n: t for bucket in rank.buckets(1 << 20) for n, t in bucket.tensors()}


@pytest.mark.parametrize(("host", "written"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_ranks_meet_at_an_address_of_either_family(host, written):
    rank = Rank(RankSetup(spec=spec(), folder=Path(), device="cpu", rank=0, ranks=1))
    address = rank.listen(host)
    assert re.fullmatch(rf"{re.escape(written)}:\d+", address)
    rank.join(address)
    try:
        assert rank.joined
    finally:
        rank.leave()


BOTH = pytest.mark.parametrize("divided", [False, True], ids=["copied weights", "fsdp2"])


@BOTH
def test_one_rank_gives_the_bits_of_the_decoder_without_shards(folder, open_rank, divided):
    rank, settings = open_rank(folder, divided=divided), spec().update
    plain = open_decoder(folder, torch.float32, torch.device("cpu"))
    groups = [
        {"params": [p for p in plain.parameters() if (p.dim() >= 2) is decayed], "weight_decay": d}
        for decayed, d in ((True, settings.weight_decay), (False, 0.0))
    ]
    adamw = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, settings.beta2), fused=True)
    some = examples()
    for _ in range(3):
        rank.differentiate(objective(some), share(some))
        for pack in share(some).packs:
            objective(some)(plain, pack)[0].backward()
        found = gradients(rank)
        for name, parameter in plain.named_parameters():
            assert torch.equal(found[name], parameter.grad), name
        norm = rank.step("policy", 1e-2)
        squares = [
            float(torch.linalg.vector_norm(p.grad.double())) ** 2 for p in plain.parameters()
        ]
        assert norm == pytest.approx(math.sqrt(sum(squares)), rel=1e-12)
        for parameter in plain.parameters():
            parameter.grad.mul_(min(1.0, settings.max_grad_norm / (norm + 1e-6)))
        adamw.step()
        adamw.zero_grad()
    found = weights(rank)
    for name, parameter in plain.named_parameters():
        assert torch.equal(found[name], parameter.detach()), name


@BOTH
def test_logprobs_are_those_of_the_new_weights_after_a_step(folder, open_rank, divided):
    rank, some = open_rank(folder, divided=divided), examples()
    before = rank.logprobs(share(some), False)
    rank.differentiate(objective(some), share(some))
    rank.step("policy", 0.1)
    after = rank.logprobs(share(some), False)
    assert not torch.equal(before[0], after[0])
    with Bench(folder) as bench:
        for name, parameter in bench.worker.decoder.named_parameters():
            parameter.data.copy_(weights(rank)[name])
        expected = [one.logprobs[one.mask] for one in as_sampled(bench, EIGHT)]
    packed = share(some).packs
    for pack, found in zip(packed, after, strict=True):
        wanted = torch.cat([torch.from_numpy(expected[m]) for m in pack.members])
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


class Order(TorchFunctionMode):
    """Keeps when passes begin, and when results are copied to the host."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.nn.functional.embedding, torch.Tensor.cpu):
            self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_no_pass_waits_for_the_results_of_the_one_before(folder, open_rank):
    rank, some, order = open_rank(folder), examples(), Order()
    packs = len(share(some).packs)
    assert packs > 1
    with order:
        rank.logprobs(share(some), False)
    assert order.calls == ["embedding"] * packs + ["cpu"] * packs


def test_a_gradient_that_is_not_finite_changes_nothing(folder, open_rank):
    rank, some = open_rank(folder), examples()
    before = weights(rank)
    some[0].columns["advantage"][0] = math.inf
    rank.differentiate(objective(some), share(some))
    assert not math.isfinite(rank.step("policy", 0.1))
    after = weights(rank)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_a_step_without_examples_updates_nothing_and_is_not_counted(folder, open_rank):
    rank, some, found = open_rank(folder), examples(), []
    for steps_before in (0, 1):
        rank.open_models()
        before = {name: tensor.clone() for name, tensor in weights(rank).items()}
        for _ in range(steps_before):
            assert rank.differentiate(objective(some), deal([], 16, 1)[0]) == {}
            assert rank.step("policy", 1e-2) == 0.0
        after = weights(rank)
        assert all(torch.equal(after[name], before[name]) for name in before)
        rank.differentiate(objective(some), share(some))
        rank.step("policy", 1e-2)
        found.append(weights(rank))
    assert all(torch.equal(found[1][name], found[0][name]) for name in found[0])


def test_activation_checkpointing_does_not_change_gradients(folder, open_rank):
    some = examples()
    found = []
    for recomputed in (False, True):
        rank = open_rank(folder, divided=True, update={"gradientCheckpointing": recomputed})
        rank.differentiate(objective(some), share(some))
        assert rank.policy.recomputed == (rank.policy.shape.layers if recomputed else 0)
        assert not rank.policy.keeps_logits  # in a GPU's memory
        found.append(gradients(rank))
        rank.leave()
        rank.leave = lambda: None
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_bfloat16_has_float32_masters_and_exports_bfloat16(folder, open_rank):
    rank, some = open_rank(folder, model={"dtype": "bfloat16"}), examples()
    rank.differentiate(objective(some), share(some))
    assert {g.dtype for g in gradients(rank).values()} == {torch.float32}
    assert rank.step("policy", 1e-3) > 0
    assert {p.dtype for p in rank.policy.parameters()} == {torch.float32}
    assert {t.dtype for t in weights(rank).values()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lora_moves_adapters_alone_and_exports_merged_weights(open_rank, folder, dtype):
    rank = open_rank(folder, model={"dtype": dtype, "lora": {"rank": 2, "alpha": 4}})
    some = examples()
    start = open_decoder(folder, torch.float32, torch.device("cpu")).state_dict()
    merged = weights(rank)
    assert merged.keys() == start.keys()
    rank.differentiate(objective(some), share(some))
    assert rank.step("policy", 0.1) > 0
    after = weights(rank)
    moved = {name for name in after if not torch.equal(after[name], merged[name])}
    assert moved
    assert all(name.endswith("_proj.weight") for name in moved)
    adapters = [item for b in rank.buckets(1 << 20, adapters=True) for item in b.tensors()]
    again = dict(AdapterMerge(folder, rank.spec, rank.policy).merged(adapters))
    assert again.keys() >= moved
    assert all(torch.equal(again[name], after[name]) for name in again)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_shapes_of_the_weights_are_those_that_are_gathered_in_the_same_order(
    folder, open_rank, dtype
):
    rank = open_rank(folder, model={"dtype": dtype})
    gathered = [(name, tuple(t.shape), t.dtype) for name, t in rank.full_weights()]
    kind = getattr(torch, dtype)
    meta = rank.meta_weights().items()
    assert gathered == [(name, tuple(weight.shape), weight.dtype) for name, weight in meta]
    assert {weight.dtype for _, weight in meta} == {kind}


def test_the_reference_policy_stays_where_the_policy_started(folder, open_rank):
    rank, some = open_rank(folder, algorithm={"kl": {"coefficient": 0.1}}), examples()
    before = rank.logprobs(share(some), False)
    column = {"reference": lambda count: before[0].numpy()[:count] * 0}
    some = examples(**column)
    rank.differentiate(objective(some), share(some))
    rank.step("policy", 0.1)
    kept = rank.logprobs(share(some), True)
    assert all(torch.equal(a, b) for a, b in zip(kept, before, strict=True))
    assert not torch.equal(rank.logprobs(share(some), False)[0], before[0])
    rank.set_start()
    moved = rank.logprobs(share(some), True)
    assert torch.equal(moved[0], rank.logprobs(share(some), False)[0])


@BOTH
def test_a_critic_starts_at_zero_and_learns(folder, open_rank, divided):
    rank = open_rank(folder, divided=divided, algorithm={"name": "ppo"})
    some = examples(
        value=lambda n: GROUP[0].logprobs[:n] * 0,
        **{"return": lambda n: EIGHT[0].logprobs[:n] * 0 + 1},
    )
    assert all(not values.any() for values in rank.values(share(some)))
    regression = ValueRegression(
        value_clip=10.0, denominators=Denominators(tokens=16, episodes=8, token_limit=64)
    )
    for _ in range(2):  # the first step moves the head, which is 0, and then the trunk
        rank.differentiate(regression, share(some))
        assert rank.step("critic", 0.1) > 0
    assert all(values.abs().sum() > 0 for values in rank.values(share(some)))
    rank.set_start()
    trunk = dict(rank.critic.decoder.named_parameters())
    assert all(torch.equal(trunk[n].full_tensor(), t) for n, t in weights(rank).items())


def test_a_checkpoint_that_cannot_be_written_or_read_is_an_error_of_the_store(
    folder, open_rank, tmp_path
):
    """torch.distributed.checkpoint itself raises what is no `Exception`."""
    rank = open_rank(folder)
    blocked = tmp_path / "blocked/policy/shard-00001-model-00001-of-00001.safetensors"
    blocked.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"blocked/policy: rank 0 of the trainers: .*directory"):
        rank.write(tmp_path / "blocked")
    (written,) = rank.write(tmp_path / "cut")["policy"]
    with written.open("r+b") as file:
        file.truncate(written.stat().st_size - 8)
    with pytest.raises(StoreError, match=r"cut/policy: .* not fully covered"):
        rank.read(tmp_path / "cut")


def test_a_checkpoint_restores_weights_and_moments(folder, open_rank, tmp_path):
    rank, some = open_rank(folder), examples()

    def update():
        rank.differentiate(objective(some), share(some))
        return rank.step("policy", 1e-2)

    update()
    rank.write(tmp_path / "a")
    norm, after = update(), weights(rank)
    rank.read(tmp_path / "a")
    rank.write(tmp_path / "b")
    assert update() == norm
    assert all(torch.equal(after[n], t) for n, t in weights(rank).items())
    (one,), (other,) = ((tmp_path / n / "policy").iterdir() for n in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_missing_weights_are_reported(tmp_path):
    with pytest.raises(ModelError, match="weights cannot be read"):
        WeightFiles(tmp_path)


def test_weights_that_do_not_fit_are_named(folder):
    with pytest.raises(ModelError, match=r"missing \['gone'\], unknown \['model.*"):
        WeightFiles(folder).check({"gone": (2, 3)}, lambda name: name == "lm_head.weight")
