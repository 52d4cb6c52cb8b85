"""The pods of a run on Kubernetes as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from agentrl_components.spec.quantities import quantity_value
from agentrl_pipelines.labels import GPU_RESOURCE
from agentrl_pipelines.platform.pod_sets import PodSet
from agentrl_pipelines.sizing.devices import GIB


def pod_table(pods: Sequence[PodSet], disk: Mapping[str, int]) -> Table:
    """A row for each group of equal pods with the requests of one, and a row with the sums.

    `disk`: bytes of temporary files of a pod, by the name of its group, for some of them."""
    table = Table(
        title="Pods on Kubernetes, and what each takes", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("Pods")
    for name in ("count", "CPU", "GiB", "GPUs", "GiB of disk"):
        table.add_column(name, justify="right")
    for one in pods:
        files = _gib(disk[one.name]) if one.name in disk else ""
        table.add_row(one.name, f"{one.count:,}", *_cells(_amounts(one)), files)
    table.add_section()
    count = sum(one.count for one in pods)
    all_files = sum(one.count * disk.get(one.name, 0) for one in pods)
    sums = (*_cells(pod_sums(pods)), _gib(all_files) if disk else "")
    table.add_row("sum", f"{count:,}", *sums, style="bold")
    return table


def pod_sums(pods: Sequence[PodSet]) -> tuple[float, float, float]:
    """CPUs, bytes of memory and GPUs that all pods request together."""
    cpus, memory, gpus = zip(
        *([one.count * amount for amount in _amounts(one)] for one in pods), strict=True
    )
    return sum(cpus), sum(memory), sum(gpus)


def pods_as_json(pods: Sequence[PodSet]) -> list[dict[str, Any]]:
    """The groups of pods as JSON data, with the requests of one pod as in its manifest."""
    return [{"name": one.name, "count": one.count, "requests": dict(one.requests)} for one in pods]


def _amounts(pods: PodSet) -> tuple[float, float, float]:
    """CPUs, bytes of memory and GPUs that one pod requests."""
    cpu, memory = (quantity_value(pods.requests[name]) for name in ("cpu", "memory"))
    return cpu, memory, float(pods.requests.get(GPU_RESOURCE, 0))


def _cells(amounts: tuple[float, float, float]) -> tuple[str, str, str]:
    cpus, memory, gpus = amounts
    return f"{round(cpus, 3):g}", _gib(memory), f"{gpus:g}" if gpus else ""


def _gib(amount: float) -> str:
    return f"{amount / GIB:,.2f}"
