"""Hand-over of weights from a trainer to a sampler on Ray, beside the way through the object store
and a bare copy of as many bytes.

    .venv/bin/python benchmarks/hand_over.py --size 24M --engine vllm
    .venv/bin/python benchmarks/hand_over.py --size 0.5B --engine torch

One trainer, one sampler, random weights, float32. The three take turns.

- direct: the product's hand-over. Gathered, sent and loaded bucket by bucket.
- store: the way of a checkpoint. All weights are gathered and written to a file, the file is put
  into a store in a folder, and the sampler's process gets it, reads it and loads it.
- copy: as many bytes are copied from one array to another, both mapped already, 64 MiB at a time.

`held` is how much the resident memory of each process grew at most during the first hand-over. That
of a sampler includes the torch engine's own weights, which become resident when they are written.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
from report.machine import machine
from workload.models import SIZES, Size, make

from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.hand_over.buckets import BUCKET_BYTES, BucketTransfer
from agentrl_components.ray_workers.hand_over.transfer import HandOver
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.ray_workers.sampler import Sampler
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.spec import RunSpec
from agentrl_components.storage import tensors
from agentrl_components.storage.directory import DirectoryStore
from agentrl_components.workers.player import Player

ALL = SIZES | {"0.5B": Size(name="0.5B", hidden=1536, layers=30, heads=24)}
OUT = Path(__file__).parent / "results" / "hand_over.json"
KEY = "weights.safetensors"


def through_store(trainers: RayTrainers, sampler: Any, folder: Path, version: int) -> None:
    """Write all weights to the store as a checkpoint is written, and have the sampler load them."""
    import ray

    store, spool = DirectoryStore(folder / "store"), folder / "spool"
    path = tensors.pack(dict(trainers.weights()), KEY, spool)
    assert isinstance(path, Path)
    store.put_file(f"{version}/{KEY}", path)
    path.unlink()
    ray.get(sampler.__ray_call__.remote(partial(fetch, folder, version)))
    store.delete(f"{version}/{KEY}")


def fetch(folder: Path, version: int, sampler: Sampler) -> None:
    """In the sampler's process: read the weights of a version and load them."""
    path = folder / "fetched"
    DirectoryStore(folder / "store").get_file(f"{version}/{KEY}", path)
    weights = tensors.unpack(path)
    path.unlink()
    sampler._loop.run(load(sampler._player, weights, version))


async def load(player: Player, weights: Mapping[str, torch.Tensor], version: int) -> None:
    """Have the player's engine use weights."""
    await player.start_update(partial=False)
    await player.update(weights.items())
    await player.finish_update(version)


def copy(source: torch.Tensor, target: torch.Tensor, size: int) -> None:
    """Copy `size` bytes, in blocks of a bucket."""
    blocks = len(source) // BUCKET_BYTES
    for number in range(-(-size // BUCKET_BYTES)):
        start = number % blocks * BUCKET_BYTES
        part = slice(start, start + min(BUCKET_BYTES, size - number * BUCKET_BYTES))
        target[part].copy_(source[part])


def resident(*_: object) -> tuple[int, int]:
    """Bytes of this process's resident memory: now, and at most since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    now, peak = (
        int(found.group(1)) * 1024
        for found in (re.search(rf"{name}:\s+(\d+) kB", status) for name in ("VmRSS", "VmHWM"))
        if found
    )
    return now, peak


def forget_peak(*_: object) -> int:
    """Count the peak of resident memory from now. Returns the bytes that are resident."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident()[0]


def growth(actors: Mapping[str, Any], action: Callable[[], object]) -> dict[str, int]:
    """How many bytes the resident memory of this process and of actors grew at most meanwhile."""
    import ray

    calls = {name: actor.__ray_call__.remote(forget_peak) for name, actor in actors.items()}
    before = {"driver": forget_peak()} | {name: ray.get(call) for name, call in calls.items()}
    action()
    calls = {name: actor.__ray_call__.remote(resident) for name, actor in actors.items()}
    peaks = {"driver": resident()[1]} | {name: ray.get(call)[1] for name, call in calls.items()}
    return {name: peaks[name] - size for name, size in before.items()}


def seconds(action: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure(
    spec: RunSpec, model: ModelFolder, rounds: int, scratch: Path, *, by_store: bool
) -> dict[str, Any]:
    """Seconds of the three ways, or of two, the bytes they move, and what the direct one holds."""
    reserved = reservations(spec.compute)
    disconnect = connect("embedded", reserved)
    trainers = RayTrainers(spec, model, reserved, "cpu").open()
    transfer = BucketTransfer(trainers.source, adapters=False)
    samplers = RaySamplers(spec, model, reserved, "cpu", transfer).open()
    (sampler,), (trainer,) = samplers.actors, trainers._actors
    sent: list[HandOver] = []
    # Not timed: freed memory stays mapped, so only the first hand-over shows what one needs.
    actors = {"trainer": trainer, "sampler": sampler}
    held = growth(actors, lambda: sent.append(transfer.send([sampler], 0)))
    size = sent[0].bytes
    blocks = min(8, -(-size // BUCKET_BYTES))
    source = torch.ones(blocks * BUCKET_BYTES, dtype=torch.uint8)
    target = torch.zeros_like(source)
    ways = ("direct", "store", "copy") if by_store else ("direct", "copy")
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(1, rounds + 1):
        taken["copy"].append(seconds(partial(copy, source, target, size)))
        taken["direct"].append(seconds(partial(transfer.send, [sampler], 2 * number)))
        if by_store:
            store = partial(through_store, trainers, sampler, scratch, 2 * number + 1)
            taken["store"].append(seconds(store))
    samplers.close()
    trainers.close()
    disconnect()
    return {"bytes": size, "seconds": taken, "held": held}


@click.command()
@click.option("--size", type=click.Choice(list(ALL)), default="24M", show_default=True)
@click.option("--engine", type=click.Choice(["torch", "vllm"]), default="vllm", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option(
    "--store/--no-store",
    "by_store",
    default=True,
    show_default=True,
    help="The way through the store, which holds all weights in the driver and the sampler.",
)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, show_default=True)
def main(size: str, engine: str, rounds: int, by_store: bool, out: Path) -> None:
    """Measure, print the ratios and add the result to a JSON file."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        folder = Path(scratch) / "model"
        parameters = make(ALL[size], folder, context=256)
        spec = RunSpec.model_validate(
            {
                "model": {"source": f"file://{folder}", "context": 256},
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "rollout": {"engine": engine},
                "compute": {"ray": "embedded"},
            }
        )
        model = ModelFolder(path=folder, vocabulary=())
        result = measure(spec, model, rounds, Path(scratch), by_store=by_store)
    middle = {way: median(taken) for way, taken in result["seconds"].items()}
    result |= {
        "parameters": parameters,
        "machine": machine(),
        "median seconds": middle,
        "direct / copy": middle["direct"] / middle["copy"],
    }
    text = ""
    if by_store:
        result["store / direct"] = middle["store"] / middle["direct"]
        text = f"store {middle['store']:.2f} s ({result['store / direct']:.1f} times as long), "
    held = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in result["held"].items())
    click.echo(
        f"{size}, {engine}: {result['bytes'] / 1e6:,.0f} MB, direct {middle['direct']:.2f} s, "
        f"{text}copy {middle['copy']:.3f} s (direct takes {result['direct / copy']:.1f} times as "
        f"long); memory grew by at most: {held}"
    )
    add_result(out, f"{size} {engine}", result)


def add_result(out: Path, name: str, result: Mapping[str, Any]) -> None:
    """Add a result to a JSON file, in the place of an earlier one of that name."""
    report = json.loads(out.read_text()) if out.is_file() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report | {name: result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
