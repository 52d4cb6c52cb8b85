"""The machine that a measurement was made on."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")


def machine(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """Properties of the machine that are needed to interpret the measurements."""
    return {
        "processor": processor(cpuinfo),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": sys.version.split()[0],
    }


def processor(cpuinfo: Path) -> dict[str, Any]:
    """Model name, family and model number of the first processor in `cpuinfo`, and the number of
    processors there. Only a name where the kernel gives none of these: not Linux, or not x86."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        text = ""
    first = text.split("\n\n", 1)[0]
    fields = {
        name.strip(): value.strip()
        for name, found, value in (line.partition(":") for line in first.splitlines())
        if found
    }
    if "model name" not in fields or "cpu family" not in fields:
        return {"name": platform.processor() or platform.machine()}
    return {
        "name": fields["model name"],
        "family": int(fields["cpu family"]),
        "model": int(fields["model"]),
        "cores": sum(line.partition(":")[0].strip() == "processor" for line in text.splitlines()),
    }
