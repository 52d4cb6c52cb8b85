"""Checks of FSDP: gradients and norms are those of the model without it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from gpu_checks.data import likelihood, skewed
from gpu_checks.place import Place, Skipped
from processes.rank_processes import on_ranks
from torch import Tensor

from agentrl_components.sharded.rank import POLICY, Rank, RankSetup
from agentrl_components.sharded.rounds import deal

TOLERANCE = 1e-5
"""Of gradients and norms, as a share of the largest element and of the norm."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a rank found in two updates."""

    gradients: dict[str, Tensor]
    """Of the first update, whole and on the CPU; of the first rank alone."""
    norms: list[float]


def train(rank: int, address: str, place: Place, ranks: int) -> Trained:
    """Two updates on a rank."""
    if not place.cpu:
        torch.cuda.set_device(rank)
    setup = RankSetup(
        spec=place.spec("float32"),
        folder=place.folder,
        device=place.device,
        rank=rank,
        ranks=ranks,
        divided=True,
    )
    trainer = Rank(setup)
    trainer.join(address)
    trainer.open_models()
    some = skewed(trainer.policy.shape.vocabulary)
    trained = Trained({}, [])
    for update in range(2):
        trainer.differentiate(likelihood(some), deal(some, 512, ranks)[rank])
        if update == 0:
            for name, parameter in trainer.policy.named_parameters():
                whole = parameter.grad.full_tensor()  # type: ignore[union-attr]
                if rank == 0:
                    trained.gradients[name] = whole.cpu().clone()
        trained.norms.append(trainer.step(POLICY, 1e-4))
    trainer.leave()
    return trained


def compare_ranks(place: Place, ranks: int) -> dict[str, Any]:
    """Raises `AssertionError` if gradients or norms are not those of the model without FSDP."""
    decoder = place.decoder(torch.float32)
    some = skewed(decoder.shape.vocabulary)
    # The packs of the ranks: others would be computed by other kernels, and rounded differently.
    for share in deal(some, 512, ranks):
        for one in share.packs[: share.counted]:
            likelihood(some)(decoder, one)[0].backward()  # type: ignore[no-untyped-call]
    plain = {n: p.grad.cpu() for n, p in decoder.named_parameters() if p.grad is not None}
    del decoder
    first = on_ranks(ranks, train, place, ranks)[0]
    worst = max(
        float((first.gradients[n] - g).abs().max() / g.abs().max()) for n, g in plain.items()
    )
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in plain.values()))
    found = {
        "ranks": ranks,
        "gradient_difference": worst,
        "norm_difference": abs(first.norms[0] - norm) / norm,
        "norms": first.norms,
    }
    assert worst <= TOLERANCE, f"gradients differ by {worst:.2g}"
    assert found["norm_difference"] <= TOLERANCE, f"norms differ by {found['norm_difference']:.2g}"
    return found


def check_fsdp_one(place: Place) -> dict[str, Any]:
    """One rank."""
    return compare_ranks(place, 1)


def check_fsdp_many(place: Place) -> dict[str, Any]:
    """One rank for each device."""
    if place.devices < 2:
        raise Skipped("there is one GPU")
    return compare_ranks(place, place.devices)
