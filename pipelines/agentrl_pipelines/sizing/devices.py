"""Memory and speed of accelerators, from their manufacturer's data sheets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30


def in_gib(count: int) -> str:
    """Bytes with a unit: 12.3 GiB, or 45.6 MiB below a tenth of a GiB."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB / 10 else f"{count / (1 << 20):,.1f} MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator."""

    name: str
    memory: int
    """Bytes that a process can allocate."""
    flops: float
    """Peak bfloat16 operations per second of dense matrix multiplications. 0: unknown."""
    bandwidth: float
    """Peak memory bandwidth in bytes per second."""


def _device(name: str, gib: float, teraflops: float, terabytes: float) -> Device:
    return Device(
        name=name, memory=int(gib * GIB), flops=teraflops * 1e12, bandwidth=terabytes * 1e12
    )


DEVICES = {
    device.name: device
    for device in (
        _device("a10g", 22, 125, 0.60),
        _device("l40s", 44, 362, 0.86),
        _device("a100-40", 39, 312, 1.56),
        _device("a100-80", 79, 312, 2.04),
        _device("h100", 79, 989, 3.35),
        _device("h200", 139, 989, 4.80),
        _device("b200", 178, 2250, 8.00),
    )
}
"""Accelerators by the name that `agentrl plan --device` takes."""
CPU = "cpu"
"""The name of this machine's processor and memory."""


def device(name: str) -> Device:
    """The device with this name. For `cpu` the speed is unknown."""
    if name != CPU:
        return DEVICES[name]
    return Device(name=CPU, memory=machine_memory(), flops=0, bandwidth=0)


def machine_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process can have: those of the machine, or the limit of its control
    group, as in a container. `root` is the folder with `proc` and `sys`."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min((physical, *_limits(root)))


def _limits(root: Path) -> Iterator[int]:
    """Limits of the memory of this process's control group and of those that it is in, in bytes."""
    groups = root / "proc/self/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        hierarchy, controllers, group = line.split(":", 2)
        if hierarchy == "0":  # version 2
            mounted, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mounted, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        own = mounted / group.strip("/")
        for folder in (own, *own.parents):
            # In a container the own group is mounted at the root, so others are not found.
            limit = folder / name
            if folder.is_relative_to(mounted) and limit.is_file():
                text = limit.read_text().strip()
                if text != "max":
                    yield int(text)
