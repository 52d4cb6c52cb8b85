"""Checks of the transfer of weights, between processes, GPUs and into vLLM."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from gpu_checks.engines import LOOP, compare_engine, vllm_options
from gpu_checks.place import Place, Skipped, require, wait
from processes.rank_processes import on_ranks
from torch import Tensor

from agentrl_components.engines.weight_change import WeightChange
from agentrl_components.model.causal_model import CausalModel
from agentrl_components.model.load import device_weights, export_weights

if TYPE_CHECKING:
    from agentrl_components.engines.vllm_engine.engine import VllmEngine


def check_ipc(place: Place) -> dict[str, Any]:
    """CUDA IPC on one GPU; shared memory on the CPU."""
    weights = {n: p.detach() for n, p in place.decoder(torch.bfloat16).named_parameters()}
    began = time.perf_counter()
    sums = on_ranks(1, sums_of, weights)[0]
    seconds = time.perf_counter() - began  # with the start of the process
    wrong = [name for name, total in sums_of(0, "", weights).items() if total != sums[name]]
    assert not wrong, f"{wrong[0]} arrived changed"
    return {"bytes": sum(w.nbytes for w in weights.values()), "seconds_with_start": seconds}


def sums_of(rank: int, address: str, weights: Mapping[str, Tensor]) -> dict[str, float]:
    """The sum of each tensor, which another process may share."""
    return {name: float(tensor.double().sum()) for name, tensor in weights.items()}


@dataclass(frozen=True, slots=True)
class Broadcast:
    """What a rank found of weights that rank 0 sent."""

    same: bool
    seconds: float
    bytes: int


def broadcast(rank: int, address: str, place: Place) -> Broadcast:
    """Send the weights of rank 0 to rank 1."""
    if not place.cpu:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "gloo" if place.cpu else "nccl",
        init_method=f"tcp://{address}",
        rank=rank,
        world_size=2,
    )
    weights = [p.detach() for p in place.decoder(torch.bfloat16).parameters()]
    expected = [float(w.double().sum()) for w in weights]
    seconds = 0.0
    for _ in range(2):  # the first time connects
        if rank == 1:
            for weight in weights:
                weight.zero_()
        wait(place)
        dist.barrier()
        began = time.perf_counter()
        for weight in weights:
            dist.broadcast(weight, 0)
        wait(place)
        seconds = time.perf_counter() - began
    arrived = [float(w.double().sum()) for w in weights]
    dist.destroy_process_group()
    return Broadcast(arrived == expected, seconds, sum(w.nbytes for w in weights))


def check_collective(place: Place) -> dict[str, Any]:
    """NCCL between two GPUs; gloo on the CPU."""
    if place.devices < 2:
        raise Skipped("there is one GPU")
    found: Broadcast = on_ranks(2, broadcast, place)[1]
    assert found.same, "weights arrived changed"
    speed = found.bytes / found.seconds / 1e9
    return {"bytes": found.bytes, "seconds": found.seconds, "gigabytes_per_second": speed}


def check_hand_over(place: Place) -> dict[str, Any]:
    """From a trainer in this process to vLLM beside it: on the device, as runs do it, and through
    the CPU; and a bare copy of as many bytes on the device."""
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    engine = VllmEngine(place.folder, vllm_options(place, "bfloat16"))
    decoder = place.decoder(torch.bfloat16)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(1.01)
    ways: dict[str, Callable[[], Mapping[str, Tensor]]] = {
        "through_cpu": lambda: export_weights(decoder),
        "on_device": lambda: device_weights(decoder),
    }
    seconds: dict[str, float] = {}
    for _ in range(2):  # the first time compiles
        for way, weights_of in ways.items():
            began = time.perf_counter()
            LOOP.run_until_complete(engine.load(weights_of(), 1))
            wait(place)
            seconds[way] = time.perf_counter() - began
        began = time.perf_counter()
        copies = [w.clone() for w in device_weights(decoder).values()]
        wait(place)
        seconds["copy"] = time.perf_counter() - began
    found = compare_engine(place, engine, decoder, "bfloat16")
    return found | {"bytes": sum(w.nbytes for w in copies), "seconds": seconds}


def check_changes(place: Place) -> dict[str, Any]:
    """Changes of 2 % of the entries of vLLM's weights, on the device and through the CPU, beside a
    load of all weights on the device."""
    if place.cpu:
        raise Skipped("vLLM packs the weights of its layers on CPUs")
    require("vllm")
    from agentrl_components.engines.vllm_engine.engine import VllmEngine

    engine = VllmEngine(place.folder, vllm_options(place, "bfloat16"))
    decoder = place.decoder(torch.bfloat16)
    seconds: dict[str, float] = {}
    size = 0
    for number in range(4):  # each way first compiles
        way = ("on_device", "through_cpu")[number % 2]
        changes = [
            changed(decoder, name, place.device if way == "on_device" else "cpu")
            for name, _ in decoder.named_parameters()
        ]
        size = sum(change.nbytes for change in changes)
        wait(place)
        began = time.perf_counter()
        LOOP.run_until_complete(apply(engine, changes, number + 1))
        wait(place)
        seconds[way] = time.perf_counter() - began
    found = compare_engine(place, engine, decoder, "bfloat16")
    began = time.perf_counter()
    LOOP.run_until_complete(engine.load(device_weights(decoder), 5))
    wait(place)
    seconds["all_weights"] = time.perf_counter() - began
    return found | {"bytes": size, "seconds": seconds}


@torch.no_grad()
def changed(decoder: CausalModel, name: str, device: str) -> WeightChange:
    """Change every fiftieth entry of a weight, and say which, with tensors on `device`."""
    weight = decoder.get_parameter(name)
    indices = torch.arange(0, weight.numel(), 50, dtype=torch.int32, device=weight.device)
    values = weight.view(-1)[indices.long()] * 1.25
    weight.view(-1)[indices.long()] = values
    return WeightChange(
        name=decoder.saved_name(name),
        shape=tuple(weight.shape),
        indices=indices.to(device),
        values=values.to(device),
    )


async def apply(engine: VllmEngine, changes: Collection[WeightChange], version: int) -> None:
    """Have the engine use changes."""
    await engine.start_update(changes=True)
    await engine.change(changes)
    await engine.finish_update(version)
