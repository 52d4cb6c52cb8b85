"""Hand-over of what changed of the weights beside that of all weights, in bfloat16.

    .venv/bin/python benchmarks/sparse_hand_over.py --size 24M
    .venv/bin/python benchmarks/sparse_hand_over.py --size 0.5B

One trainer and one sampler with the torch engine on Ray, random weights. Each round makes an update
with AdamW on random tokens and hands the weights over as changes, and then all of them, to the same
sampler. Learning rates take turns.

Bytes are those that would go over a network. Seconds are those of one machine, where they do not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
from hand_over import ALL, add_result
from report.machine import machine
from workload.models import make

from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.hand_over.buckets import BucketTransfer
from agentrl_components.ray_workers.hand_over.sparse import SparseTransfer
from agentrl_components.ray_workers.model_folder import ModelFolder
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.ray_workers.samplers import RaySamplers
from agentrl_components.ray_workers.trainers import RayTrainers
from agentrl_components.spec import RunSpec
from agentrl_components.update.objectives import Imitation
from agentrl_components.update.packing import Example

OUT = Path(__file__).parent / "results" / "sparse_hand_over.json"
RATES = (1e-6, 1e-5)
"""Learning rates: that of the paper, and ten times as much."""
TOKENS = 128


def update(trainers: RayTrainers, rate: float, seed: int) -> None:
    """One update on random tokens, every one of which the policy is to imitate."""
    some = Example(
        ids=np.random.default_rng(seed).integers(1, 200, TOKENS + 1).astype(np.int32),
        sampled=np.arange(1, TOKENS + 1),
        allowed=None,
        temperature=1.0,
        columns={"weight": np.ones(TOKENS, dtype=np.float32)},
    )
    trainers.differentiate(Imitation(total_weight=float(TOKENS), chunk=TOKENS), [some])
    trainers.step("policy", rate)


def rounds_of(spec: RunSpec, model: ModelFolder, rounds: int) -> Iterator[dict[str, float]]:
    """What each round took."""
    reserved = reservations(spec.compute)
    disconnect = connect("embedded", reserved)
    trainers = RayTrainers(spec, model, reserved, "cpu").open()
    whole = BucketTransfer(trainers.source, adapters=False)
    sparse = SparseTransfer(trainers.source, whole)
    samplers = RaySamplers(spec, model, reserved, "cpu", sparse).open()
    sparse.send(samplers.actors, 0)
    for number in range(1, rounds * len(RATES) + 1):
        rate = RATES[number % len(RATES)]
        update(trainers, rate, number)
        changes = sparse.send(samplers.actors, number)
        everything = whole.send(samplers.actors, number)
        yield {
            "rate": rate,
            "bytes": changes.bytes,
            "all bytes": everything.bytes,
            "seconds": changes.seconds,
            "all seconds": everything.seconds,
        }
    samplers.close()
    trainers.close()
    disconnect()


def summary(measured: list[dict[str, float]], rate: float) -> dict[str, Any]:
    """Medians of the rounds of one learning rate, and their ratios."""
    mine = [one for one in measured if one["rate"] == rate]
    middle = {name: median(one[name] for one in mine) for name in mine[0]}
    return middle | {
        "bytes / all bytes": middle["bytes"] / middle["all bytes"],
        "seconds / all seconds": middle["seconds"] / middle["all seconds"],
        "entries changed": middle["bytes"] / 6 / (middle["all bytes"] / 2),
    }


@click.command()
@click.option("--size", type=click.Choice(list(ALL)), default="24M", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, show_default=True)
def main(size: str, rounds: int, out: Path) -> None:
    """Measure, print the ratios and add the result to a JSON file."""
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        folder = Path(scratch) / "model"
        parameters = make(ALL[size], folder, context=256)
        spec = RunSpec.model_validate(
            {
                "model": {"source": f"file://{folder}", "context": 256, "dtype": "bfloat16"},
                "environments": [{"name": "corridor", "builtin": "corridor"}],
                "horizon": {"phases": [{"maxTurns": 1, "iterations": 1}]},
                "compute": {"ray": "embedded", "sparseHandOver": True},
            }
        )
        measured = list(rounds_of(spec, ModelFolder(path=folder, vocabulary=()), rounds))
    rates = {f"{rate:g}": summary(measured, rate) for rate in RATES}
    for rate, one in rates.items():
        click.echo(
            f"{size}, learning rate {rate}: {one['entries changed']:.2%} of the entries changed; "
            f"{one['bytes'] / 1e6:,.1f} of {one['all bytes'] / 1e6:,.0f} MB "
            f"({one['bytes / all bytes']:.3f}), {one['seconds']:.2f} s in the place of "
            f"{one['all seconds']:.2f} s ({one['seconds / all seconds']:.2f})"
        )
    result = {"parameters": parameters, "machine": machine(), "rounds": measured, "rates": rates}
    add_result(out, size, result)


if __name__ == "__main__":
    main()
