"""Updates without shards, and on ranks: gradients and norms."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from sharded_arms.task import Task, examples, objective_of
from torch import Tensor, nn

from agentrl_components.model.load import open_decoder
from agentrl_components.sharded.rank import POLICY, Rank, RankSetup
from agentrl_components.sharded.rounds import deal
from agentrl_components.update.adamw import BETA1


@dataclass(frozen=True, kw_only=True)
class Arm:
    """What an arm found."""

    name: str
    norms: tuple[float, ...]
    seconds: float
    gradient_difference: float | None = None
    """The largest, over all tensors, as a share of the tensor's largest element."""
    norm_difference: float | None = None
    """The largest relative one, over all updates."""


def train_plain(
    task: Task, name: str, perturbation: float = 0.0, gradients: Path | None = None
) -> Arm:
    """Train the decoder without FSDP, with torch's own AdamW. Writes the first gradients to the
    file `gradients`."""
    began, spec = time.perf_counter(), task.spec()
    decoder = open_decoder(Path(task.folder), torch.float32, torch.device("cpu"))
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(1 + perturbation * torch.randn(parameter.shape, generator=draw))
    groups = [
        {
            "params": [p for p in decoder.parameters() if (p.dim() >= 2) is decayed],
            "weight_decay": d,
        }
        for decayed, d in ((True, spec.update.weight_decay), (False, 0.0))
    ]
    adamw = torch.optim.AdamW(
        groups, lr=task.learning_rate, betas=(BETA1, spec.update.beta2), fused=True
    )
    norms = []
    for update in range(task.updates):
        chosen = examples(update)
        asked = objective_of(task, chosen)
        for pack in deal(chosen, spec.update.micro_batch_tokens, 1)[0].packs:
            asked(decoder, pack)[0].backward()  # type: ignore[arg-type, no-untyped-call]
        named = {n: p.grad for n, p in decoder.named_parameters() if p.grad is not None}
        if update == 0 and gradients is not None:
            save_file({n: g.clone() for n, g in named.items()}, gradients)
        squares = [
            float(torch.linalg.vector_norm(g, dtype=torch.float64)) ** 2 for g in named.values()
        ]
        norm = math.sqrt(sum(squares))
        norms.append(norm)
        for gradient in named.values():
            gradient.mul_(min(1.0, spec.update.max_grad_norm / (norm + 1e-6)))
        adamw.step()
        adamw.zero_grad()
    return Arm(name=name, norms=tuple(norms), seconds=time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class RankUpdates:
    """What a rank found."""

    norms: tuple[float, ...]
    gradient_difference: float
    """How far the first gradients are from the expected ones."""


def train_rank(number: int, address: str, task: Task, count: int, expected: Path) -> RankUpdates:
    """Train on a rank, and compare the first gradients with those in the file `expected`."""
    rank = joined(number, address, task, count)
    spec, norms, difference = task.spec(), [], 0.0
    for update in range(task.updates):
        chosen = examples(update)
        share = deal(chosen, spec.update.micro_batch_tokens, count)[number]
        rank.differentiate(objective_of(task, chosen), share)
        if update == 0:
            difference = difference_of(rank.policy, load_file(expected))
        norms.append(rank.step(POLICY, task.learning_rate))
    rank.leave()
    return RankUpdates(tuple(norms), difference)


def difference_of(module: nn.Module, expected: Mapping[str, Tensor]) -> float:
    """The largest difference of a gradient, as a share of the tensor's largest element."""
    worst = 0.0
    for name, parameter in module.named_parameters():
        found = parameter.grad.full_tensor()  # type: ignore[union-attr]
        wanted = expected[name]
        worst = max(worst, float((found - wanted).abs().max() / wanted.abs().max()))
    return worst


def joined(number: int, address: str, task: Task, count: int, *, divided: bool = False) -> Rank:
    """A rank that has joined the process group at `address`. `divided`: as in `RankSetup`."""
    setup = RankSetup(
        spec=task.spec(),
        folder=Path(task.folder),
        device="cpu",
        rank=number,
        ranks=count,
        divided=divided,
    )
    rank = Rank(setup)
    rank.join(address)
    rank.open_models()
    return rank
