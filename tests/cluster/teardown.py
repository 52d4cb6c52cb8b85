"""The end of a cluster: every process, pod, mount, interface, rule and file of it goes.

Also what a killed machine's session left behind: shims and containers outlive containerd, mounts
outlive containers, and nothing of it is in any list of ours.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pipelines
from command import kubectl
from place import BRIDGE, IP, RUNTIME, SOCKET, STATE, ClusterError
from processes import every, signal_group
from ruleset import TABLE

CGROUPS = Path("/sys/fs/cgroup")


def down() -> None:
    """Safe to call again, and when there is nothing."""
    pods()
    processes()
    strays()
    mounts()
    network()
    for folder in (STATE, RUNTIME):
        shutil.rmtree(folder, ignore_errors=True)
    SOCKET.unlink(missing_ok=True)
    Path(f"{SOCKET}.ttrpc").unlink(missing_ok=True)
    pipelines.TOKEN.unlink(missing_ok=True)
    if left := leftovers():
        raise ClusterError(f"still there after `down`: {', '.join(left)}")


def pods() -> None:
    """While there is a kubelet: it unmounts and unplugs what it mounted and plugged."""
    if not any(process.alive for process in every()):
        return
    try:
        kubectl("delete", "pods", "-A", "--all", "--force", "--grace-period=0", seconds=20)
    except ClusterError:
        return  # what it did not do is done below


def processes() -> None:
    ours = every()
    for process in ours:
        signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + 5  # the API server would wait for etcd, which is gone
    while any(process.group() for process in ours) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in ours:
        signal_group(process, signal.SIGKILL)


def strays() -> None:
    """Shims, everything in a pod's cgroup, and whoever listens at the bridge's address: a server
    that is started there later would seem to serve while another answers."""
    for _ in range(600):  # a minute: one that waits for the disk dies when that answers
        found = {*shims(), *contained(), *listeners()}
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)
    for folder in sorted(pod_cgroups(), reverse=True):
        try:
            folder.rmdir()
        except OSError:
            continue  # named among the leftovers, should it stay


def shims() -> Iterator[int]:
    marker = str(SOCKET).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"containerd-shim" in words[0] and any(marker in word for word in words):
            yield int(path.parent.name)


def listeners() -> Iterator[int]:
    """Processes with a socket there."""
    listed = subprocess.run(
        ["ss", "-HlntupO", "src", IP], capture_output=True, text=True, check=False, timeout=60
    )
    yield from map(int, re.findall(r"\bpid=(\d+)", listed.stdout))


def contained() -> Iterator[int]:
    for folder in pod_cgroups():
        try:
            yield from map(int, (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue


def pod_cgroups() -> list[Path]:
    roots = [*CGROUPS.glob("kubepods"), *CGROUPS.glob("*/kubepods")]
    return [Path(folder) for root in roots for folder, _, _ in os.walk(root)]


def mounts() -> None:
    for target in sorted(mounted(), reverse=True):
        subprocess.run(["umount", "-l", target], check=False, capture_output=True, timeout=300)


def mounted() -> list[str]:
    lines = Path("/proc/mounts").read_text().splitlines()
    targets = [line.split()[1] for line in lines]
    return [target for target in targets if target.startswith((f"{STATE}/", f"{RUNTIME}/"))]


def network() -> None:
    for space in Path("/run/netns").glob("cni-*"):
        quiet("ip", "netns", "del", space.name)
    quiet("umount", "/run/netns")  # unless somebody else's are there
    quiet("ip", "link", "del", BRIDGE)
    for family in ("ip", "ip6"):
        quiet("nft", "delete", "table", family, "kube-proxy")
    quiet("nft", "delete", "table", "ip", TABLE)


def quiet(*argv: str) -> None:
    """Often there is nothing to remove."""
    subprocess.run(argv, check=False, capture_output=True, timeout=300)


def leftovers() -> list[str]:
    """What should be gone and is not."""
    left = [process.name for process in every() if process.group()]
    left += [f"process {pid}" for pid in {*shims(), *listeners()}] + mounted()
    left += [str(folder) for folder in pod_cgroups()]
    left += [str(path) for path in (STATE, RUNTIME, Path(f"/sys/class/net/{BRIDGE}"))
             if path.exists()]  # fmt: skip
    return left
