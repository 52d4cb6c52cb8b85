"""Model FLOPs utilisation of updates, with and without `update.compile`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from gpu_checks.data import examples, likelihood
from gpu_checks.place import Place, Skipped, wait
from torch.distributed.fsdp import FSDPModule

from agentrl_components.compilers import compiler
from agentrl_components.sharded.rank import POLICY, Rank, RankSetup
from agentrl_components.sharded.rounds import Share, deal
from agentrl_components.update.objectives import Objective

AIMS = {"mfu_16k": 0.35, "mfu_65k": 0.45}

STORED = 16384
"""Tokens whose activations fit 80 GB beside this model."""
EPISODE = 4096
"""Tokens of an episode, if a check names no other length."""


def peak_flops() -> float | None:
    """Peak operations per second of the GPU in bfloat16, by its name. None: not known."""
    from agentrl_pipelines.sizing.devices import DEVICES

    name = torch.cuda.get_device_name(0).lower()
    for key, device in DEVICES.items():
        if key.partition("-")[0] in name:
            return device.flops
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A rank that is the only one, and an update of one pack."""

    rank: Rank
    asked: Objective
    share: Share

    def seconds(self, place: Place, count: int) -> list[float]:
        """Seconds of each of `count` updates."""
        out = []
        for _ in range(count):
            wait(place)
            began = time.perf_counter()
            self.rank.differentiate(self.asked, self.share)
            self.rank.step(POLICY, 1e-6)
            wait(place)
            out.append(time.perf_counter() - began)
        return out


def open_update(
    place: Place,
    tokens: int,
    longest: int,
    *,
    compiled: bool,
    recompute: bool,
    divided: bool = False,
) -> Update:
    """An update of one pack of `tokens` tokens, as episodes of `longest` tokens. `divided`: as in
    `RankSetup`."""
    if compiled and compiler(place.device) is None:
        raise Skipped("no compiler is installed")
    if place.cpu:
        tokens, longest = 256, 256 * longest // tokens
    spec = place.spec("bfloat16", recompute=recompute, compiled=compiled, pack=tokens)
    setup = RankSetup(
        spec=spec, folder=place.folder, device=place.device, rank=0, ranks=1, divided=divided
    )
    rank = Rank(setup)
    rank.join(rank.listen("127.0.0.1"))
    rank.open_models()
    some = examples([longest] * (tokens // longest), rank.policy.shape.vocabulary)
    share = deal(some, tokens, 1)[0]
    assert len(share.packs) == 1
    return Update(rank=rank, asked=likelihood(some), share=share)


def measure_update(
    place: Place, tokens: int, *, compiled: bool, longest: int = EPISODE
) -> dict[str, Any]:
    """Updates of one pack of `tokens` tokens, as episodes of `longest` tokens. Of more than
    `STORED` tokens, activations are recomputed as the memory demands. Recomputed operations do not
    count as the model's."""
    recompute = tokens > STORED
    opened = open_update(place, tokens, longest, compiled=compiled, recompute=recompute)
    rank, pack = opened.rank, opened.share.packs[0]
    seconds = opened.seconds(place, 4)
    rank.leave()
    fastest = sorted(seconds[1:])[1]  # the median of three
    policy, shape = rank.policy, rank.policy.shape
    tokens, longest = len(pack.ids_N), max(pack.lengths)
    parameters = sum(p.numel() for p in policy.parameters())
    heads = shape.hidden * shape.vocabulary
    # 6 operations a weight and token (arXiv 2001.08361), of the head for sampled tokens only;
    # causal attention reads half of the keys on average.
    attention = 6 * shape.layers * shape.heads * shape.head_width * longest * tokens
    operations = 6 * (parameters - heads) * tokens + 6 * heads * len(pack.targets_S) + attention
    found: dict[str, Any] = {
        "tokens": tokens,
        "episode": longest,
        "seconds": seconds,
        "tokens_per_second": tokens / fastest,
        "recomputed_blocks": policy.recomputed,
        "selective": policy.selective,
        "logits_kept": policy.keeps_logits,
        "fsdp2": isinstance(policy, FSDPModule),
        "weights_stay": rank.room.keeps_weights,
        "gradients_exchanged_once": rank.room.exchanges_once,
    }
    if not place.cpu:
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        peak = peak_flops()
        found["mfu"] = None if peak is None else operations / fastest / peak
    return found


def check_mfu_16k(place: Place) -> dict[str, Any]:
    """An update of 16,384 tokens."""
    return measure_update(place, 16384, compiled=False) | {"aim": AIMS["mfu_16k"]}


def check_mfu_65k(place: Place) -> dict[str, Any]:
    """An update of 65,536 tokens."""
    return measure_update(place, 65536, compiled=False) | {"aim": AIMS["mfu_65k"]}


def check_mfu_16k_compiled(place: Place) -> dict[str, Any]:
    """An update of 16,384 tokens with `update.compile`."""
    return measure_update(place, 16384, compiled=True) | {"aim": AIMS["mfu_16k"]}


def check_mfu_65k_compiled(place: Place) -> dict[str, Any]:
    """An update of 65,536 tokens with `update.compile`."""
    return measure_update(place, 65536, compiled=True) | {"aim": AIMS["mfu_65k"]}


def check_mfu_65k_episode(place: Place) -> dict[str, Any]:
    """An update of one episode of 65,536 tokens with `update.compile`. prime-rl publishes figures
    for sequences as long as the pack: 11.1 % at 16,384 tokens and 26.8 % at 65,536."""
    if place.cpu:
        raise Skipped("mfu_65k_compiled is the same on a CPU")
    return measure_update(place, 65536, compiled=True, longest=65536) | {"aim": AIMS["mfu_65k"]}
