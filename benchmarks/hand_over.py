"""Hand-over of weights from a trainer to a sampler on Ray, beside the way through the object store
and a bare copy of as many bytes.

    .venv/bin/python benchmarks/hand_over.py --size 24M --engine vllm

One trainer, one sampler, random weights, float32. The three take turns. `direct` is the product's
hand-over: gathered, sent and loaded bucket by bucket. `store` gathers all weights, writes them to a
store in a folder, reads them in the sampler's process and loads them. `copy` is a memcpy into
memory that is mapped already.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
from models import SIZES, Size, make
from peer import machine

from agentrl_components.exchange.weight_channel import Published, WeightChannel
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.schedule.staleness import PlayWindow
from agentrl_components.spec import RunSpec
from agentrl_components.storage.directory import DirectoryStore

ALL = SIZES | {"0.5B": Size(name="0.5B", hidden=1536, layers=25, heads=24)}
OUT = Path(__file__).parent / "results" / "hand_over.json"


def through_store(trainers: RayTrainers, sampler: Any, store: Path, number: int) -> None:
    """Publish all weights as the disaggregated form does, and have the sampler fetch them."""
    import ray

    weights = trainers.weights()
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    published = Published(
        window=PlayWindow(number=number, lag=0, last=number, max_lag=0),
        version=number,
        phase=0,
        max_turns=1,
        finished=False,
    )
    vector_P = torch.cat([tensor.flatten() for tensor in weights.values()])
    WeightChannel(DirectoryStore(store)).publish(published, vector_P)
    ray.get(sampler.__ray_call__.remote(partial(fetch, store, number, shapes)))


def fetch(store: Path, number: int, shapes: dict[str, tuple[int, ...]], sampler: Any) -> None:
    """In the sampler's process: read the weights of a policy and load them."""
    vector_P = WeightChannel(DirectoryStore(store)).fetch(number)
    parts = vector_P.split([int(torch.Size(shape).numel()) for shape in shapes.values()])
    weights = {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    sampler._player.start_update()
    sampler._player.update(weights)
    sampler._player.finish_update(number)


def seconds(action: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def measure(spec: RunSpec, model: ModelFolder, rounds: int, store: Path) -> dict[str, Any]:
    """Seconds of the three ways, and the bytes they move."""
    reserved = reservations(spec.compute)
    disconnect = connect("embedded", reserved)
    trainers = RayTrainers(spec, model, reserved, "cpu")
    transfer = BucketTransfer(trainers, adapters=False)
    samplers = RaySamplers(spec, model, reserved, "cpu", transfer)
    (sampler,) = samplers.actors
    size = transfer.send([sampler], 0).bytes
    source = torch.ones(size, dtype=torch.uint8)
    target = torch.zeros(size, dtype=torch.uint8)
    taken: dict[str, list[float]] = {"direct": [], "store": [], "copy": []}
    for number in range(1, rounds + 1):
        taken["copy"].append(seconds(partial(target.copy_, source)))
        taken["direct"].append(seconds(partial(transfer.send, [sampler], number)))
        taken["store"].append(seconds(partial(through_store, trainers, sampler, store, number)))
    samplers.close()
    trainers.close()
    disconnect()
    return {"bytes": size, "seconds": taken}


@click.command()
@click.option("--size", type=click.Choice(list(ALL)), default="24M", show_default=True)
@click.option("--engine", type=click.Choice(["torch", "vllm"]), default="vllm", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, show_default=True)
def main(size: str, engine: str, rounds: int, out: Path) -> None:
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
        result = measure(spec, model, rounds, Path(scratch) / "store")
    middle = {way: median(taken) for way, taken in result["seconds"].items()}
    result |= {
        "parameters": parameters,
        "machine": machine(),
        "median seconds": middle,
        "store / direct": middle["store"] / middle["direct"],
        "direct / copy": middle["direct"] / middle["copy"],
    }
    click.echo(
        f"{size}, {engine}: {result['bytes'] / 1e6:,.0f} MB, direct {middle['direct']:.2f} s, "
        f"store {middle['store']:.2f} s ({result['store / direct']:.1f} times as long), "
        f"copy {middle['copy']:.3f} s (direct takes {result['direct / copy']:.1f} times as long)"
    )
    report = json.loads(out.read_text()) if out.is_file() else {}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report | {f"{size} {engine}": result}, indent=2) + "\n")


if __name__ == "__main__":
    main()
