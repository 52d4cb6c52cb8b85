"""The memory of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrl_pipelines.sizing.devices import device, machine_memory

PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
UNLIMITED = "9223372036854771712"
"""What version 1 of control groups has where there is no limit."""


def machine(root: Path, groups: str, limits: dict[str, str]) -> int:
    """The memory of a machine with this `/proc/self/cgroup` and these files in `/sys/fs/cgroup`."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, limit in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit + "\n")
    return machine_memory(root)


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": "2097152"}, 2097152),  # a container
        ("0::/\n", {"memory.max": "max"}, PHYSICAL),
        # The smallest limit of a group and of those that it is in.
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": "3145728"}, 3145728),
        ("0::/a/b\n", {"a/b/memory.max": "2097152", "a/memory.max": "3145728"}, 2097152),
        ("5:cpu:/x\n4:memory:/x\n0::/\n", {"memory/x/memory.limit_in_bytes": "4096"}, 4096),
        # A container that sees the path on its host.
        ("4:cpu,memory:/kube/x\n", {"memory/memory.limit_in_bytes": "8192"}, 8192),
        ("4:memory:/x\n", {"memory/x/memory.limit_in_bytes": UNLIMITED}, PHYSICAL),
        ("5:cpu:/x\n", {"memory/x/memory.limit_in_bytes": "4096"}, PHYSICAL),
    ],
)
def test_the_limit_of_the_control_group_is_the_memory_of_the_machine(
    tmp_path, groups, limits, expected
):
    assert machine(tmp_path, groups, limits) == expected


def test_a_system_without_control_groups_has_the_memory_of_the_machine(tmp_path):
    assert machine_memory(tmp_path) == PHYSICAL


def test_the_device_cpu_has_this_memory():
    assert device("cpu").memory == machine_memory() <= PHYSICAL
