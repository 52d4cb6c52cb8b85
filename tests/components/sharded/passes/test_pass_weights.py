"""The only rank computes with copies of its weights as FSDP2 does with gathered ones."""

import pytest
import torch
import torch.distributed as dist
from learner_bench import EIGHT
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from agentrl_components.sharded.model import hold_whole
from agentrl_components.sharded.passes.pass_weights import (
    CopiedWeights,
    GatheredWeights,
    pass_weights,
)
from agentrl_components.sharded.rounds import deal
from agentrl_components.sharded.rows import local_rows
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import example

SOME = [example(e, {"weight": e.logprobs[e.mask] * 0 + 1}) for e in EIGHT]
ASKED = Imitation(total_weight=21.0, chunk=4)
LORA = {"rank": 2, "alpha": 4}


@pytest.mark.parametrize(
    "model", [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"dtype": "bfloat16", "lora": LORA}]
)
def test_updates_over_several_packs_have_the_bits_of_fsdp2(folder, open_rank, model):
    share = deal(SOME, 16, 1)[0]
    assert len(share.packs) > 1
    found = []
    for divided in (False, True):
        rank = open_rank(folder, divided=divided, model=model)
        norms = []
        for _ in range(3):
            rank.differentiate(ASKED, share)
            trained = [p for p in rank.policy.parameters() if p.requires_grad]
            gradients = [p.grad.full_tensor() for p in trained]
            assert {g.dtype for g in gradients} == {torch.float32}
            norms.append(rank.step("policy", 1e-2))
        scores = rank.logprobs(share, False)
        found.append(
            (*gradients, *(p.full_tensor() for p in trained), *scores, torch.tensor(norms))
        )
        rank.leave()
        rank.leave = lambda: None
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.fixture
def mesh(tmp_path):
    meeting = f"file://{tmp_path}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@pytest.fixture
def layers(mesh):
    """Two layers with one weight, which is the identity."""
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[0].weight.data.copy_(torch.eye(2))
    module[1].weight = module[0].weight
    hold_whole(module, mesh)
    return module


def test_copies_are_there_in_passes_only_and_follow_the_weights(layers):
    weights, master = CopiedWeights(layers, torch.bfloat16), layers[0].weight
    for value in (1.0, 3.0):
        local_rows(master).mul_(value)
        with weights.loaded():
            copy = layers[0].weight
            assert copy is layers[1].weight
            assert copy.tolist() == [[value, 0], [0, value]]
            assert copy.dtype == torch.bfloat16
        assert copy.untyped_storage().nbytes() == 0
        assert layers[0].weight is layers[1].weight is master


def test_weights_that_are_computed_in_their_own_type_are_not_copied(layers):
    address = local_rows(layers[0].weight).data_ptr()
    with CopiedWeights(layers, torch.float32).loaded():
        assert layers[0].weight.data_ptr() == address


def test_a_pass_that_fails_leaves_the_master_weights_in_their_place(layers):
    weights, master, seen = CopiedWeights(layers, torch.bfloat16), layers[0].weight, []

    def fail():
        with weights.loaded():
            seen.append(layers[0].weight)
            layers(torch.ones(1, 3, dtype=torch.bfloat16))

    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        fail()
    assert layers[0].weight is master
    assert seen[0].untyped_storage().nbytes() == 0


def test_gradients_of_passes_are_added_in_float32(mesh):
    module = nn.Linear(2, 1)
    hold_whole(module, mesh)
    weights = CopiedWeights(module, torch.bfloat16)
    with weights.loaded():
        for inputs in weights.passes([[256, 1], [1, 1]], together=True):
            x = torch.tensor(inputs, dtype=torch.bfloat16)
            (module.weight @ x).sum().backward()
    gradient = local_rows(module.weight.grad)
    assert gradient.tolist() == [[257, 2]]  # bfloat16 has 256 and 258
    assert gradient.dtype == torch.float32
    assert module.bias.grad is None


@pytest.fixture
def gathered(mesh):
    """A layer with the weights 1 and 2 that FSDP2 holds."""
    module = nn.Linear(2, 1, bias=False)
    module.weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    fully_shard(module, mesh=mesh)
    return module, pass_weights(module, torch.float32)


def test_what_fsdp2_has_gathered_follows_the_weights(gathered):
    module, weights = gathered
    assert isinstance(weights, GatheredWeights)
    found = []
    for _ in range(2):
        with weights.loaded():
            found.append(module(torch.tensor([3.0, 4.0])).item())
        local_rows(module.weight).mul_(2)  # as an optimizer step would
    assert found == [11, 22]


@pytest.mark.parametrize("together", [True, False])
def test_gradients_of_passes_with_gathered_weights_are_added(gathered, together):
    module, weights = gathered
    with weights.loaded():
        for inputs in weights.passes([[3.0, 4.0], [5.0, 6.0]], together=together):
            module(torch.tensor(inputs)).backward()
    assert local_rows(module.weight.grad).tolist() == [[8, 10]]
