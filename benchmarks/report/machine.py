"""The machine that a measurement was made on, and the code that was measured."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

CPUINFO = Path("/proc/cpuinfo")
ROOT = Path(__file__).parents[2]


def machine(cpuinfo: Path = CPUINFO) -> dict[str, Any]:
    """What is needed to interpret a measurement of this process and to repeat it."""
    return {
        "command": command(),
        "commit": commit(),
        "processor": processor(cpuinfo),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": sys.version.split()[0],
    }


def command() -> str:
    """The command line of this process, with the script as from the repository's root."""
    script, *arguments = sys.argv
    path = Path(script).resolve()
    named = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name
    return shlex.join(["python", named, *arguments])


def commit(root: Path = ROOT) -> str:
    """The commit that is checked out, with `+` after it if files differ from it; empty outside a
    repository."""
    git = ["git", "-C", str(root), "describe", "--always", "--abbrev=8", "--exclude=*"]
    try:
        done = subprocess.run(
            [*git, "--dirty=+"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:  # there is no git
        return ""
    return done.stdout.strip()


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
