"""One rank with `update.compile`: the gradients of the plain decoder, but for rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from learner_bench import EIGHT, spec

from agentrl_components.compilers import compiler
from agentrl_components.errors import ModelError
from agentrl_components.model.load import open_decoder
from agentrl_components.model.sources import fetch_model
from agentrl_components.sharded.passes.pass_memory import PassSize, Recomputation, activation_bytes
from agentrl_components.sharded.passes.recomputation import PassRoom
from agentrl_components.sharded.rounds import deal
from agentrl_components.update.logprobs import score
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import example

COMPILED = {"compile": True, "gradientCheckpointing": True}
TWO_LAYERS = {"tiny": {"layers": 2, "hidden": 24, "heads": 3, "intermediate": 64}}
SELECTIVE = Recomputation(selective=True)


def give_room(rank, selective, pack):
    """Let a rank have memory for a pass over a pack whose blocks are selective, or none."""
    size, shape = PassSize(tokens=len(pack.ids_N)), rank.policy.shape
    room = activation_bytes(rank.spec, shape, size, SELECTIVE) if selective else 0
    rank.room = PassRoom([rank.policy], rank.spec, room)
    rank.room.fit(rank.policy, pack.lengths)
    assert rank.policy.selective == selective
    assert rank.policy.recomputed == (0 if selective else 2)


@pytest.mark.slow
# torch's compiler uses deprecated parts of torch, and hides a warning that it causes.
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.skipif(compiler("cpu") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(
    ("selective", "divided", "fewest_graphs"),
    [pytest.param(False, True, 6, marks=pytest.mark.nightly), (True, False, 8)],
)
def test_gradients_and_scores_are_those_of_the_plain_model(
    selective, divided, fewest_graphs, tmp_path, open_rank
):
    settings = spec(model=TWO_LAYERS).model
    folder = fetch_model(settings, [f"word{i}" for i in range(20)], 0, tmp_path)
    rank = open_rank(folder, divided=divided, model=TWO_LAYERS, update=COMPILED)
    plain = open_decoder(folder, torch.float32, torch.device("cpu"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    free = [example(e, {"weight": e.logprobs[e.mask] * 0 + 1}) for e in EIGHT[:7]]
    confined = [
        replace(e, allowed=tuple(np.array([t, 3, 4]) for t in e.ids[e.sampled])) for e in free
    ]
    asked = Imitation(total_weight=21.0, chunk=4)
    for some in (free, [*confined[:4], *free[4:]]):
        share = deal(some, 16, 1)[0]  # packs of several sizes
        assert len({len(pack.ids_N) for pack in share.packs}) > 1
        give_room(rank, selective, share.packs[0])
        rank.differentiate(asked, share)
        plain.zero_grad()
        for pack in share.packs:
            asked(plain, pack)[0].backward()
        found = {n: p.grad.full_tensor() for n, p in rank.policy.named_parameters()}
        wanted = {n: p.grad for n, p in plain.named_parameters()}
        assert found.keys() == wanted.keys()
        for name, gradient in wanted.items():
            assert (found[name] - gradient).abs().max() <= 1e-5 * gradient.abs().max(), name
        scored = rank.logprobs(share, reference=False)
        for pack, logprobs_S in zip(share.packs, scored, strict=True):
            assert torch.allclose(logprobs_S, score(plain, pack, chunk=16)[0], rtol=0, atol=1e-5)
    # Two functions of a layer and two of the head; the latter with and without gradients. Selective
    # layers have two of their own for passes with gradients.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= fewest_graphs


def test_a_missing_compiler_is_told_by_the_name_of_the_field(folder, open_rank, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        ModelError, match=r"update\.compile: no compiler is installed .* install g\+\+"
    ):
        open_rank(folder, update=COMPILED)
