"""Ablations: what each optimisation that adds code of our own is worth.

    python benchmarks/ablations.py --repeats 5

Every row is one way to do the same thing; the first of a part is the product's. The ways of a part
take turns, so that the load of the machine strikes all alike. A row has the median of the repeats
in processor seconds, children included, and its ratio to the product's.

    import-mlflow    `light_import` beside a plain import of MLflow's client
    import-gc        importing what a worker needs with garbage collection off and on
    tokenizer        our word tokenizer beside transformers' AutoTokenizer
    workers          worker processes forked, from the fork server, and spawned
    adamw            our AdamW beside torch's, importing and stepping
    garbage          playing with garbage collected as seldom as in workers, and as Python does
    mlflow-process   what recording costs a run: in MLflow's own process, and in the run's
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from report.machine import machine
from rich.console import Console
from rich.table import Table

Way = Callable[[], float]
"""Does the work once and returns seconds."""

PARTS: dict[str, Callable[[Path], Mapping[str, Way]]] = {}


def part(function: Callable[[Path], Mapping[str, Way]]) -> Callable[[Path], Mapping[str, Way]]:
    """Register the ways of a part under the function's name; its argument is a scratch folder."""
    PARTS[function.__name__.replace("_", "-")] = function
    return function


def in_new_process(code: str) -> Way:
    """Processor seconds of a new Python process that executes `code`, with its children."""

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def in_this_process(work: Callable[[], object]) -> Way:
    """Processor seconds of `work`, in all threads of this process."""

    def run() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return run


@part
def import_mlflow(folder: Path) -> Mapping[str, Way]:
    del folder
    light = (
        "from agentrl_components.tracking.mlflow.light_import import lighten_import;"
        "lighten_import('http://mlflow');"
    )
    client = "from mlflow import MlflowClient; MlflowClient('http://mlflow')"
    return {"light import": in_new_process(light + client), "plain": in_new_process(client)}


@part
def import_gc(folder: Path) -> Mapping[str, Way]:
    del folder
    off = (
        "from agentrl_components.workers.imports import collection_disabled\n"
        "with collection_disabled():\n    import agentrl_components.workers.pool"
    )
    on = "import agentrl_components.workers.pool"
    return {"collection off": in_new_process(off), "collection on": in_new_process(on)}


@part
def tokenizer(folder: Path) -> Mapping[str, Way]:
    from agentrl_components.dialogue import word_tokenizer

    saved = folder / "tokenizer"
    saved.mkdir()
    word_tokenizer.save(word_tokenizer.word_tokenizer(["go", "left", "right"]), saved)
    ours = f"open_dialogue(Path({str(saved)!r}), 'plain', False)"
    theirs = f"AutoTokenizer.from_pretrained({str(saved)!r})"
    shared = "import torch; from pathlib import Path;"
    return {
        "word tokenizer": in_new_process(
            f"{shared} from agentrl_components.dialogue.open import open_dialogue; {ours}"
        ),
        "AutoTokenizer": in_new_process(
            f"{shared} from transformers import AutoTokenizer; {theirs}"
        ),
    }


@part
def workers(folder: Path) -> Mapping[str, Way]:
    del folder
    started = (
        "import multiprocessing as m\n"
        "from agentrl_components.workers import fork_server\n"
        "import agentrl_components.workers.pool\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "import agentrl_components.workers.worker as w\n"
        "with ProcessPoolExecutor(2, mp_context={}) as pool:\n"
        "    assert all(f.result() for f in [pool.submit(w.torch.ones, 1) for _ in range(4)])\n"
        # Waiting for the fork server, if there is one, makes its processor time count.
        "from multiprocessing import forkserver\n"
        "forkserver._forkserver._stop()\n"
    )
    return {
        "fork": in_new_process(started.format("fork_server.fork_context()")),
        "fork server": in_new_process(started.format("fork_server.fork_server_context()")),
        "spawn": in_new_process(started.format("m.get_context('spawn')")),
    }


@part
def adamw(folder: Path) -> Mapping[str, Way]:
    del folder
    import torch

    from agentrl_components.update.adamw import AdamW

    size, steps = 2_000_000, 20
    gradient_P = torch.randn(size)

    def ours() -> None:
        optimizer = AdamW(torch.zeros(size), beta2=0.95, weight_decay=0.0)
        for _ in range(steps):
            optimizer.step(gradient_P, 1e-3)

    def theirs(**how: bool) -> Callable[[], None]:
        def step() -> None:
            vector_P = torch.zeros(size, requires_grad=True)
            vector_P.grad = gradient_P
            optimizer = torch.optim.AdamW([vector_P], betas=(0.9, 0.95), weight_decay=0.0, **how)
            for _ in range(steps):
                optimizer.step()

        return step

    construct = "import torch; torch.optim.AdamW([torch.zeros(1, requires_grad=True)])"
    own = (
        "import torch; from agentrl_components.update.adamw import AdamW;"
        "AdamW(torch.zeros(1), beta2=0.95, weight_decay=0.0).step(torch.ones(1), 1e-3)"
    )
    torch.set_num_threads(1)
    theirs()()  # imports torch's compiler, which has a row of its own
    return {
        "ours, 20 steps of 2 M": in_this_process(ours),
        "torch, one by one": in_this_process(theirs(foreach=False)),
        "torch, foreach": in_this_process(theirs(foreach=True)),
        "torch, fused": in_this_process(theirs(fused=True)),
        "ours, import and first step": in_new_process(own),
        "torch, import and construct": in_new_process(construct),
    }


@part
def garbage(folder: Path) -> Mapping[str, Way]:
    """160 episodes of `examples/babyai.yaml` by random weights, in this process."""
    import gc

    from agentrl_components.rollout.request import CollectRequest
    from agentrl_components.run.worker_group import WorkerGroup
    from agentrl_components.spec.parsing.load import load

    spec = load("examples/babyai.yaml", ("compute.workers=1", "rollout.tasks=20")).spec
    group = WorkerGroup(spec, folder, note=print)  # ends with this process
    seldom = gc.get_threshold()
    request = CollectRequest(
        tasks=group.draw("train", 20),
        samples=8,
        max_turns=8,
        temperature=1.0,
        iteration=0,
        purpose="train",
    )

    def play(*threshold: int) -> Callable[[], None]:
        def run() -> None:
            gc.set_threshold(*threshold)
            group.collector.collect(request, 0)
            gc.set_threshold(*seldom)

        return run

    play(*seldom)()  # generates the worlds
    return {
        "as in workers": in_this_process(play(*seldom)),
        "Python's threshold": in_this_process(play(700, 10, 10)),
    }


@part
def mlflow_process(folder: Path) -> Mapping[str, Way]:
    """Processor seconds of the run's process for 50 iterations of 20 ms of Python each, whose 40
    metrics are recorded meanwhile. MLflow's own process works beside it, on another core."""
    from agentrl_components.tracking.mlflow.messages import target
    from agentrl_components.tracking.mlflow.tracker import MlflowTracker
    from agentrl_components.tracking.mlflow.worker import Recorder
    from agentrl_components.tracking.send_queue import Metrics

    for name in ("process", "thread"):
        (folder / name).mkdir()
    tracker = MlflowTracker(folder / "process", pause_s=0.0)
    tracker.params({"seed": "0"})
    recorder = Recorder(target(folder / "thread", None, "ablation", "ablation", None))
    thread = ThreadPoolExecutor(1)
    step = iter(range(10**9))
    metrics = {f"train/{name}": float(name) for name in range(40)}

    def iterations(record: Callable[[int], object]) -> Way:
        def run() -> float:
            began = time.process_time()
            for _ in range(50):
                number = 0
                while number < 400_000:
                    number += 1
                record(next(step))
            thread.submit(int).result()  # what is still being recorded counts
            return time.process_time() - began

        return run

    def in_the_run(at: int) -> None:
        recorder.record(Metrics(iterations={at: (1000, metrics)}))

    return {
        "own process": iterations(lambda at: tracker.metrics(at, metrics)),
        "no tracking": iterations(lambda _: None),
        "thread of the run": iterations(lambda at: thread.submit(in_the_run, at)),
        "between iterations": iterations(in_the_run),
    }


@click.command()
@click.option("--repeats", default=5, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(sorted(PARTS)), help="Repeatable.")
@click.option("--out", "path", default="benchmarks/results/ablations.json", show_default=True)
def main(repeats: int, only: tuple[str, ...], path: str) -> None:
    """Measure, print a table, write JSON."""
    measured: dict[str, dict[str, list[float]]] = {}
    table = Table(box=None, pad_edge=False)
    for column in ("part", "way", "CPU seconds", "ratio"):
        table.add_column(column, justify="right" if column in ("CPU seconds", "ratio") else "left")
    with tempfile.TemporaryDirectory(prefix="agentrl-bench-") as scratch:
        for name in only or PARTS:
            folder = Path(scratch) / name
            folder.mkdir()
            ways = PARTS[name](folder)
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(repeats):
                for way, run in ways.items():
                    seconds[way].append(run())
            measured[name] = seconds
            base = 0.0
            for way, taken in seconds.items():
                median = statistics.median(taken)
                # The rows of another quantity start with the product's again.
                base = median if way == next(iter(ways)) or way.startswith("ours") else base
                table.add_row(name, way, f"{median:.3f}", f"{median / base:.2f}")
    Console().print(table)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    written = {**machine(), "seconds": measured}
    Path(path).write_text(json.dumps(written, indent=2) + "\n")
    click.echo(f"written: {path}")


if __name__ == "__main__":
    main()
