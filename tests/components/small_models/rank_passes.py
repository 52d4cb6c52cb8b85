"""Ranks in processes of their own, whose passes have a given amount of memory."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from learner_bench import spec
from torch.multiprocessing.spawn import spawn

from agentrl_components.sharded.passes.recomputation import PassRoom
from agentrl_components.sharded.process_group import MeetingPoint
from agentrl_components.sharded.rank import Rank, RankSetup
from agentrl_components.sharded.rounds import deal
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import Example


@dataclass(frozen=True)
class Found:
    """What a rank found."""

    gradients: dict[str, torch.Tensor]
    recomputed: int
    """Blocks that computed their activations again in the rank's last pass."""
    gathered: bool
    """Whether weights stayed gathered between the passes."""
    once: bool
    """Whether gradients were exchanged once in an update."""


def on_two_ranks(folder: Path, lengths: tuple[int, ...], room: int, out: Path) -> list[Found]:
    """The gradients of one update of episodes of `lengths` tokens on two ranks, of which each has
    `room` bytes for a pass."""
    meeting = MeetingPoint("127.0.0.1")
    spawn(_run, (folder, lengths, room, meeting.address, out), nprocs=2)
    return [torch.load(out / str(rank), weights_only=False) for rank in range(2)]


def _setup(folder: Path, rank: int) -> RankSetup:
    update = {"microBatchTokens": 64, "gradientCheckpointing": True}
    return RankSetup(spec=spec(update=update), folder=folder, device="cpu", rank=rank, ranks=2)


def _run(
    number: int, folder: Path, lengths: tuple[int, ...], room: int, address: str, out: Path
) -> None:
    rank = Rank(_setup(folder, number))
    rank.join(address)
    rank.open_models()
    rank.room = PassRoom([rank.policy], rank.spec, room)
    some = [_example(length) for length in lengths]
    asked = Imitation(total_weight=float(sum(lengths)), chunk=16)
    for _ in range(2):  # gathered anew after a step
        rank.differentiate(asked, deal(some, 64, 2)[number])
        gradients = {n: p.grad.full_tensor() for n, p in rank.policy.named_parameters()}
        rank.step("policy", 1e-3)
    found = Found(
        gradients, rank.policy.recomputed, rank.room.keeps_weights, rank.room.exchanges_once
    )
    torch.save(found, out / str(number))
    rank.leave()


def _example(length: int) -> Example:
    """An episode of `length` tokens, of which each but the first is sampled."""
    return Example(
        ids=np.random.default_rng(length).integers(1, 20, length + 1).astype(np.int32),
        sampled=np.arange(1, length + 1),
        allowed=None,
        temperature=1.0,
        columns={"weight": np.ones(length, dtype=np.float32)},
    )
