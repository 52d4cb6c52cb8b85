"""A decoding pass of the torch engine beside what the machine could do.

    python benchmarks/engine.py --out benchmarks/results/engine.json

One thread, as in a worker. Each session samples its next token with a number of tokens in the
cache. In turns with a pass are measured:

- `torch`: the same pass without the engine's compiled functions (`torch_engine/kernels`): torch's
  attention over padded keys, and one call of torch for each operation, as on other devices;
- `matrices`: the products with all weights of the model, for as many rows;
- `keys`: attention over the cached keys by torch's `scaled_dot_product_attention`;
- `reading`: reading those keys and values from memory once.

The rest of a pass is normalisation, rotation, activation functions, copies and Python. Column
`limit`: what `matrices` and `reading` take, as a share of a pass. `GFLOP/s`: of the products in a
pass, of `matrices`, and of a square matrix of 1024. `ratio`: `torch` over `pass`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import torch
import torch.nn.functional as F
from report.machine import machine
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from workload import models

from agentrl_components.engines.torch_engine.reply import Session
from agentrl_components.engines.torch_engine.slot_passes import SlotPasses
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.load import open_decoder

TOKEN = 5
SQUARE = 1024


@click.command()
@click.option("--sizes", default="0.36M,2.45M", show_default=True)
@click.option("--rows", default=32, show_default=True, help="Sessions of the batch.")
@click.option("--keys", default="50,200,400", show_default=True, help="Cached tokens a session.")
@click.option("--rounds", default=60, show_default=True)
@click.option("--out", default="benchmarks/results/engine.json", show_default=True)
def main(sizes: str, rows: int, keys: str, rounds: int, out: str) -> None:
    """Measure decoding passes: print a table and write JSON."""
    torch.set_num_threads(1)
    square = torch.randn(SQUARE, SQUARE)
    found = []
    for size in sizes.split(","):
        with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
            models.make(models.SIZES[size], Path(scratch))
            decoder = open_decoder(Path(scratch), torch.float32, torch.device("cpu"))
        assert isinstance(decoder, Decoder)
        for cached in map(int, keys.split(",")):
            wanted = parts(decoder, rows, cached) | {"square": lambda: square @ square}
            seconds = measure(wanted, rounds)
            found.append(row(size, decoder, rows, cached, seconds))
    Console().print(table(found))
    written = {"machine": machine(), "rows": rows, "results": found}
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


@torch.inference_mode()
def parts(decoder: Decoder, rows: int, cached: int) -> dict[str, Callable[[], Any]]:
    """A decoding pass of `rows` sessions with `cached` tokens each, and its parts alone."""
    shape = decoder.shape
    # With a history of their own, sessions with the same tokens are not computed as one.
    sessions = [Session(slot + 1, history=object()) for slot in range(rows)]
    passes, plain = SlotPasses(decoder), SlotPasses(decoder, kernels=False)
    for one in (passes, plain):
        one.logits([[TOKEN] * cached for _ in sessions], sessions)
    for session in sessions:
        session.cached = cached
    linear = [one for one in decoder.modules() if isinstance(one, nn.Linear)]
    inputs = {width: torch.randn(rows, width) for width in {one.in_features for one in linear}}
    states_BE = torch.randn(rows, shape.hidden)
    size = (rows, shape.kv_heads, cached, shape.head_width)
    caches = [(torch.randn(size), torch.randn(size)) for _ in range(shape.layers)]
    group = shape.heads // shape.kv_heads
    q_BKGD = torch.randn(rows, shape.kv_heads, group, shape.head_width)

    def products() -> None:
        for one in linear:
            F.linear(inputs[one.in_features], one.weight)
        decoder.logits(states_BE)

    def attention() -> list[Tensor]:
        return [F.scaled_dot_product_attention(q_BKGD, k, v) for k, v in caches]

    return {
        "pass": lambda: passes.logits([[TOKEN]] * rows, sessions),
        "torch": lambda: plain.logits([[TOKEN]] * rows, sessions),
        "matrices": products,
        "keys": attention,
        "reading": lambda: [k.sum() + v.sum() for k, v in caches],
    }


@torch.inference_mode()
def measure(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(some) for name, some in seconds.items()}


def row(
    size: str, decoder: Decoder, rows: int, cached: int, seconds: dict[str, float]
) -> dict[str, Any]:
    """What was measured, as a line of the table and of the JSON."""
    weights = sum(one.weight.numel() for one in decoder.modules() if isinstance(one, nn.Linear))
    weights += decoder.shape.vocabulary * decoder.shape.hidden if decoder.shape.tied else 0
    operations = 2 * rows * weights
    return {
        "model": size,
        "keys": cached,
        "milliseconds": {name: 1e3 * some for name, some in seconds.items() if name != "square"},
        "ratio": seconds["torch"] / seconds["pass"],
        "limit": (seconds["matrices"] + seconds["reading"]) / seconds["pass"],
        "gflops": {
            "pass": operations / seconds["pass"] / 1e9,
            "matrices": operations / seconds["matrices"] / 1e9,
            "square": 2 * SQUARE**3 / seconds["square"] / 1e9,
        },
    }


def table(found: list[dict[str, Any]]) -> Table:
    """Table of the results for the terminal."""
    shown = Table(title="a decoding pass of the torch engine, one thread")
    parts_shown = ("pass", "torch", "matrices", "keys", "reading")
    speeds = ("pass", "matrices", "square")
    for column in ("model", "keys", *(f"{name} ms" for name in parts_shown), "ratio", "limit"):
        shown.add_column(column, justify="right")
    shown.add_column("GFLOP/s", justify="right")
    for one in found:
        shown.add_row(
            one["model"],
            str(one["keys"]),
            *(f"{one['milliseconds'][name]:.2f}" for name in parts_shown),
            f"{one['ratio']:.1f}",
            f"{one['limit']:.0%}",
            ", ".join(f"{one['gflops'][name]:.0f}" for name in speeds),
        )
    return shown


if __name__ == "__main__":
    main()
