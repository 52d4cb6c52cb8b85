"""The only rank, which computes with copies of its weights, beside FSDP2."""

from __future__ import annotations

from typing import Any

import torch
from gpu_checks.place import Place
from gpu_checks.updates.throughput import EPISODE, open_update

from agentrl_components.sharded.rank import POLICY

TOLERANCE = 1e-3
"""Relative difference of gradient norms: on a GPU, attention adds in any order."""


def check_only_rank(place: Place) -> dict[str, Any]:
    """Updates of 16,384 tokens, on a GPU with `update.compile`. `ratio`: speed with copies beside
    that with FSDP2. Raises `AssertionError` if the norms of the gradients differ."""
    found: dict[str, Any] = {}
    for name, divided in (("fsdp2", True), ("copies", False)):
        found[name] = measure(place, divided=divided)
    first, other = (one["norm"] for one in found.values())
    assert abs(first - other) <= TOLERANCE * first, f"norms are {first} and {other}"
    fsdp2, copies = (sorted(one["seconds"])[1] for one in found.values())
    return found | {"ratio": fsdp2 / copies}


def measure(place: Place, *, divided: bool) -> dict[str, Any]:
    """The first gradient's norm, seconds of three later updates, and the peak of the memory."""
    compiled = not place.cpu
    opened = open_update(place, 16384, EPISODE, compiled=compiled, recompute=False, divided=divided)
    rank = opened.rank
    rank.differentiate(opened.asked, opened.share)
    found: dict[str, Any] = {"norm": rank.step(POLICY, 1e-6)}
    opened.seconds(place, 1)
    found["seconds"] = opened.seconds(place, 3)
    if not place.cpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    rank.leave()
    rank.drop_models()
    if not place.cpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return found
