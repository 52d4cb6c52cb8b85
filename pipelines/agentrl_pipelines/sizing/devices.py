"""Memory and speed of accelerators, from their manufacturer's data sheets."""

from __future__ import annotations

import os
from dataclasses import dataclass

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
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Device(name=CPU, memory=memory, flops=0, bandwidth=0)
