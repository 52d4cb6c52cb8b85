"""What compiled functions are worth in an update on CPU: passes with gradients, with and without.

    python benchmarks/compiled_update.py --out benchmarks/results/compiled_update.json

One thread, as in a worker; 2,048 tokens in episodes of different lengths. The first row is the
product's. In the others, torch computes a part of it: attention (`model/kernels/attention.py`), for
which it pads the episodes, the norms, gates and rotations of a layer (`model/kernels/layers.py`),
or both. The ways take turns, so that the load of the machine strikes all alike. A row has the
median of the repeats and its ratio to the product's.

`benchmarks/engine.py` shows what the compiled passes of the torch engine are worth.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import click
import torch
from report.machine import machine
from rich.console import Console
from rich.table import Table

from agentrl_components.model import layer_functions, packed_attention
from agentrl_components.model.architecture import Architecture, Rope
from agentrl_components.model.decoder import Decoder
from agentrl_components.model.packed_attention import PackedCausal

MODELS = {"0.3 M": (96, 3, 3), "2.4 M": (256, 4, 4)}
"""Width, layers and heads. The smaller one is that of `examples/babyai.yaml`."""
LENGTHS = (384, 352, 320, 288, 256, 224, 160, 64)
WAYS: Mapping[str, tuple[ModuleType, ...]] = {
    "compiled": (),
    "attention by torch": (packed_attention,),
    "layer functions by torch": (layer_functions,),
    "both by torch": (packed_attention, layer_functions),
}
"""The modules that do not use compiled functions."""


@click.command()
@click.option("--repeats", default=9, show_default=True)
@click.option("--out", default="benchmarks/results/compiled_update.json", show_default=True)
def main(repeats: int, out: str) -> None:
    """Measure, print a table and write JSON."""
    torch.set_num_threads(1)
    table = Table(box=None, pad_edge=False)
    for column in ("model", "way", "milliseconds", "ratio"):
        table.add_column(column, justify="right" if column in ("milliseconds", "ratio") else "left")
    found: dict[str, dict[str, float]] = {}
    for name, shape in MODELS.items():
        found[name] = measured(passes(*shape), repeats)
        for way, seconds in found[name].items():
            ratio = seconds / found[name]["compiled"]
            table.add_row(name, way, f"{1e3 * seconds:.1f}", f"{ratio:.2f}")
    Console().print(table)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    written = {"machine": machine(), "lengths": LENGTHS, "seconds": found}
    Path(out).write_text(json.dumps(written, indent=1) + "\n")
    click.echo(f"written: {out}")


def passes(width: int, layers: int, heads: int) -> Callable[[], None]:
    """A pass over the episodes with gradients, of a Llama with random weights."""
    shape = Architecture(
        family="llama", vocabulary=64, hidden=width, intermediate=2 * width, layers=layers,
        heads=heads, kv_heads=heads, head_width=width // heads, eps=1e-6, rope=Rope(), tied=True,
        qkv_bias=False, out_bias=False, mlp_bias=False, normed=False,
    )  # fmt: skip
    decoder = Decoder(shape)
    decoder.initialise(torch.Generator().manual_seed(0))
    attend = PackedCausal(LENGTHS, torch.device("cpu"))
    ids_N = torch.arange(sum(LENGTHS)) % shape.vocabulary
    return lambda: decoder(ids_N, attend.positions_N, attend).sum().backward()


def measured(work: Callable[[], None], repeats: int) -> dict[str, float]:
    """Median seconds of each way. The first round compiles, and is not counted."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats + 1):
        for way, modules in WAYS.items():
            with by_torch(modules):
                began = time.perf_counter()
                work()
                seconds[way].append(time.perf_counter() - began)
    return {way: statistics.median(some[1:]) for way, some in seconds.items()}


@contextmanager
def by_torch(modules: tuple[ModuleType, ...]) -> Iterator[None]:
    """Have `modules` use operations of torch."""
    with ExitStack() as patches:
        for module in modules:
            patches.enter_context(patch.object(module, "on_kernels", lambda _: False))
        yield


if __name__ == "__main__":
    main()
