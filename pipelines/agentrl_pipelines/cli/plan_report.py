"""The plan of a run as tables and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from agentrl_components.sharded.passes.pass_memory import Recomputation
from agentrl_components.spec import AgentRLRun, Compute
from agentrl_envs.output.console import Console
from agentrl_pipelines.cli.pod_report import pod_sums, pod_table, pods_as_json
from agentrl_pipelines.platform.pod_sets import pod_sets, ray_set
from agentrl_pipelines.sizing.devices import GIB, in_gib
from agentrl_pipelines.sizing.layout import MACHINE
from agentrl_pipelines.sizing.plan import PhasePlan, Plan


def show(run: AgentRLRun, plan: Plan, console: Console) -> None:
    """Print the plan to `console`."""
    spec, placed, device = run.spec, plan.layout, plan.device
    console.print(Text(f"{run.metadata.name}: {spec.model.source}", "bold"))
    trained = "" if spec.model.lora is None else f", {_count(plan.size.trainable)} of them trained"
    _print(console, f"{_count(plan.size.total)} parameters{trained}; {_devices(plan)}")
    console.print(_memory(plan))
    if plan.trainer.again != Recomputation():
        _print(console, f"Activations: {_again(plan)}.")
    if placed.one_machine:
        _print(
            console,
            f"Memory: {_processes(placed.ranks, plan.trainer.total, 'trainer')}, "
            f"{_processes(placed.engines, plan.engine.total, 'engine')} and {in_gib(MACHINE)} for "
            f"the rest of the run: {in_gib(plan.machine or 0)} of {in_gib(device.memory)}.",
        )
    console.print(_time(plan))
    _print_disk(plan, console)
    _print(
        console,
        f"Environments: {plan.sessions:,} sessions open at the same time {plan.busiest.when}.",
    )
    tokens = sum(phase.load.tokens for phase in plan.phases)
    _print(console, f"Tokens: at most {_count(tokens)} in all episodes of training.")
    _print_pods(run, plan, console)
    for warning in plan.warnings:
        _print(console, Text(f"warning: {warning}", "yellow"))
    for problem in plan.problems:
        _print(console, Text(str(problem), "red"))
    if not plan.problems:
        _print(console, Text("It fits.", "green"))


def _again(plan: Plan) -> str:
    """What is computed again, in words."""
    again, words = plan.trainer.again, []
    if again.blocks:
        words.append(f"{again.blocks} of {plan.blocks} blocks compute theirs again")
    if again.selective:
        who = "the others" if again.blocks else f"all {plan.blocks} blocks"
        words.append(f"{who} compute all but matrix products and attention again")
    return "; ".join(words)


def _print_disk(plan: Plan, console: Console) -> None:
    """Print what checkpoints take in the store, and on the disk of the machine."""
    _print(
        console,
        f"Checkpoints: {in_gib(plan.checkpoint)} each; at most {plan.kept} are kept and one more "
        f"is written: {in_gib(plan.stored)} in the store.",
    )
    if plan.temporary is not None:
        _print(
            console,
            f"Temporary files (TMPDIR): {in_gib(plan.temporary)}, where a checkpoint is written "
            "before it is stored.",
        )


def _print_pods(run: AgentRLRun, plan: Plan, console: Console) -> None:
    """Print what the run requests on Kubernetes: pod by pod if it has a Ray cluster of its own."""
    pods = pod_sets(run)
    if run.spec.compute.ray == "cluster":
        disk = {ray_set(group): needed for group, needed in plan.pod_disk.items()}
        console.print(pod_table(pods, disk))
        return
    cpus, memory, gpus = pod_sums(pods)
    count = sum(one.count for one in pods)
    some = f"{count} pod{'s' if count > 1 else ''}"
    amounts = [f"{cpus:g} CPUs", *([f"{gpus:g} GPUs"] if gpus else []), in_gib(int(memory))]
    line = f"On Kubernetes: {some}, with {', '.join(amounts[:-1])} and {amounts[-1]}."
    _print(console, line + _ray_place(run.spec.compute))


def _ray_place(compute: Compute) -> str:
    """Where the trainers and samplers of a run on Ray are, if it has no Ray cluster of its own."""
    if compute.ray is None:
        return ""
    if compute.ray != "embedded":
        return f" Trainers and samplers are not in them, but on the Ray cluster at {compute.ray}."
    requested = f"{compute.cpu} CPU and {compute.memory}"
    if compute.gpus:
        requested = f"{compute.cpu} CPU, {compute.gpus} GPU and {compute.memory}"
    return (
        f" Trainers and samplers have no pods: they are processes in the stage's, which requests "
        f"{requested} (compute.cpu, gpus, memory)."
    )


def _devices(plan: Plan) -> str:
    """Which devices are for what, in words."""
    placed, name = plan.layout, plan.device.name
    if placed.one_machine:
        return f"trainers and engines share this machine's {in_gib(plan.device.memory)}"
    count = f"{placed.devices} x {name}: "
    if placed.turns:
        return count + "a trainer and an engine use each in turns"
    if placed.sleeps:
        return count + "trainer and engine use it in turns"
    if placed.shared_device:
        return count + "trainer and engine share it"
    engines = placed.engines * placed.tensor_parallel
    return count + f"{placed.ranks} for the trainers, {engines} for the engines"


def _processes(count: int, each: int, role: str) -> str:
    return f"{count} {role}{'s' if count > 1 else ''} x {in_gib(each)}"


def _print(console: Console, line: str | Text) -> None:
    """Print a line that the terminal wraps, so that a file and a test get it whole."""
    console.print(line, soft_wrap=True, highlight=False)


def as_json(run: AgentRLRun, plan: Plan) -> dict[str, Any]:
    """The plan as JSON data. Memory in bytes, durations in seconds."""
    trainer, engine = plan.trainer, plan.engine
    return {
        "name": run.metadata.name,
        "model": {
            "source": run.spec.model.source,
            "parameters": plan.size.total,
            "trainable": plan.size.trainable,
        },
        "devices": {
            "name": plan.device.name,
            "count": plan.layout.devices,
            "trainers": plan.layout.ranks,
            "engines": plan.layout.engines,
            "tensorParallel": plan.layout.tensor_parallel,
            "inTurns": plan.layout.sleeps,
        },
        "trainerBytes": {name: getattr(trainer, name) for name, _ in _TRAINER}
        | {"total": trainer.total},
        "recomputedBlocks": trainer.again.blocks,
        "selectiveRecomputation": trainer.again.selective,
        "engineBytes": {
            "weights": engine.weights,
            "workspace": engine.workspace,
            "total": engine.total,
            "cache": engine.cache,
            "perToken": engine.token,
        },
        "machineBytes": plan.machine,
        "phases": [_phase(phase) for phase in plan.phases],
        "hours": plan.hours,
        "checkpointBytes": plan.checkpoint,
        "checkpointsKept": plan.kept,
        "storedBytes": plan.stored,
        "temporaryBytes": plan.temporary,
        "sessions": plan.sessions,
        "podDiskBytes": dict(plan.pod_disk),
        "pods": pods_as_json(pod_sets(run)),
        "problems": [asdict(problem) for problem in plan.problems],
        "warnings": [asdict(warning) for warning in plan.warnings],
    }


def _phase(phase: PhasePlan) -> dict[str, Any]:
    return {
        "maxTurns": phase.load.turns,
        "iterations": phase.load.iterations,
        "episodes": phase.load.episodes,
        "tokensPerEpisode": phase.load.length,
        "atOnce": phase.at_once,
        "seconds": None if phase.duration is None else asdict(phase.duration),
    }


_TRAINER = (
    ("weights", "weights"),
    ("gradients", "gradients"),
    ("moments", "AdamW's moments"),
    ("reference", "reference policy"),
    ("critic", "critic"),
    ("activations", "activations"),
    ("logits", "logits"),
    ("reserve", "reserve"),
)
"""Fields of `TrainerMemory` and their names in the table."""


def _memory(plan: Plan) -> Table:
    unit = "process" if plan.layout.one_machine else "device"
    table = Table(title=f"Memory of a {unit}", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("Trainer")
    table.add_column("GiB", justify="right")
    table.add_column("Engine")
    table.add_column("GiB", justify="right")
    engine = plan.engine
    right = [
        ("weights", engine.weights),
        ("workspace", engine.workspace),
        (f"keys and values, {max(engine.cache, 0) // engine.token:,} tokens", engine.cache),
    ]
    left = [(title, getattr(plan.trainer, name)) for name, title in _TRAINER]
    left = [(title, count) for title, count in left if count]
    for row in range(max(len(left), len(right))):
        cells: list[str] = []
        for side in (left, right):
            title, count = side[row] if row < len(side) else ("", None)
            cells += [title, "" if count is None else f"{count / GIB:,.2f}"]
        table.add_row(*cells)
    table.add_section()
    totals = [f"{plan.trainer.total / GIB:,.2f}", f"{engine.total / GIB:,.2f}"]
    table.add_row("total", totals[0], "total", totals[1], style="bold")
    return table


def _time(plan: Plan) -> Table:
    unit, per_hour = ("hours", 1) if plan.hours is None or plan.hours >= 1 else ("minutes", 60)
    total = "not estimated"
    if plan.hours is not None:
        total = (
            f"at most {plan.hours * per_hour:,.1f} {unit}, evaluations and warm start not counted"
        )
    table = Table(
        title=f"Time: {total}", title_justify="left", box=box.SIMPLE_HEAD, collapse_padding=True
    )
    headers = ("max\nturns", "itera-\ntions", "epi-\nsodes", "at\nonce", "tokens\neach")
    for name in (*headers, "rollout\ns", "update\ns", "hand-\nover s", unit):
        table.add_column(name, justify="right", overflow="fold")  # rather than lose digits
    for phase in plan.phases:
        load, duration = phase.load, phase.duration
        counts = (load.turns, load.iterations, load.episodes, phase.at_once, load.length)
        times = ["-"] * 4
        if duration is not None:
            hours = load.iterations * duration.total / 3600
            times = [f"{duration.rollout:,.1f}", f"{duration.update:,.1f}"]
            times += [f"{duration.hand_over:,.1f}", f"{hours * per_hour:,.1f}"]
        table.add_row(*(f"{count:,}" for count in counts), *times)
    return table


def _count(number: int) -> str:
    """A number with a unit: 7.62 B."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if number >= size:
            return f"{number / size:,.2f} {unit}"
    return f"{number:,}"
