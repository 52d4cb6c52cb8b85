"""Stop the local cluster and remove every process, pod, mount, interface, rule and file of it.

This includes what an interrupted session left behind: containerd's shims and containers outlive
containerd, mounts outlive containers, and neither is recorded by processes.py.
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

from cluster.command import kubectl
from cluster.network.nftables import TABLE
from cluster.processes import recorded, signal_group
from cluster.services import kubeflow_pipelines
from cluster.settings import BRIDGE, IP, RUNTIME, SOCKET, STATE, ClusterError

CGROUPS = Path("/sys/fs/cgroup")


def down() -> None:
    """Idempotent. Raises ClusterError naming what is left."""
    delete_pods()
    stop_processes()
    kill_strays()
    unmount_all()
    remove_network()
    for folder in (STATE, RUNTIME):
        shutil.rmtree(folder, ignore_errors=True)
    SOCKET.unlink(missing_ok=True)
    Path(f"{SOCKET}.ttrpc").unlink(missing_ok=True)
    kubeflow_pipelines.TOKEN.unlink(missing_ok=True)
    if left := leftovers():
        raise ClusterError(f"still present after `down`: {', '.join(left)}")


def delete_pods() -> None:
    """Delete pods while the kubelet runs: it removes their mounts and interfaces."""
    if not any(process.alive for process in recorded()):
        return
    try:
        kubectl("delete", "pods", "-A", "--all", "--force", "--grace-period=0", seconds=20)
    except ClusterError:
        return  # the steps after this one remove what the kubelet did not


def stop_processes() -> None:
    """SIGTERM to all, and SIGKILL to what still runs after five seconds."""
    ours = recorded()
    for process in ours:
        signal_group(process, signal.SIGTERM)
    deadline = time.monotonic() + 5  # the API server would wait for etcd, which has stopped
    while any(process.group() for process in ours) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in ours:
        signal_group(process, signal.SIGKILL)


def kill_strays() -> None:
    """Kill shims, processes in cgroups of pods, and listeners on the address of the bridge.

    A process that still listens there would answer in place of a server started later.
    """
    for _ in range(600):  # one minute: a process that waits for the disk dies once that answers
        found = {*shims(), *pod_processes(), *listeners()}
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
            continue  # `leftovers` reports it if it stays


def shims() -> Iterator[int]:
    """Pids of containerd's shims."""
    marker = str(SOCKET).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"containerd-shim" in words[0] and any(marker in word for word in words):
            yield int(path.parent.name)


def listeners() -> Iterator[int]:
    """Pids of processes with a socket on the address of the bridge."""
    listed = subprocess.run(
        ["ss", "-HlntupO", "src", IP], capture_output=True, text=True, check=False, timeout=60
    )
    yield from map(int, re.findall(r"\bpid=(\d+)", listed.stdout))


def pod_processes() -> Iterator[int]:
    """Pids of processes in a cgroup of a pod."""
    for folder in pod_cgroups():
        try:
            yield from map(int, (folder / "cgroup.procs").read_text().split())
        except OSError:
            continue


def pod_cgroups() -> list[Path]:
    roots = [*CGROUPS.glob("kubepods"), *CGROUPS.glob("*/kubepods")]
    return [Path(folder) for root in roots for folder, _, _ in os.walk(root)]


def unmount_all() -> None:
    for target in sorted(mounts(), reverse=True):
        subprocess.run(["umount", "-l", target], check=False, capture_output=True, timeout=300)


def mounts() -> list[str]:
    """Mount points below the folders of the cluster."""
    lines = Path("/proc/mounts").read_text().splitlines()
    targets = [line.split()[1] for line in lines]
    return [target for target in targets if target.startswith((f"{STATE}/", f"{RUNTIME}/"))]


def remove_network() -> None:
    for space in Path("/run/netns").glob("cni-*"):
        run_ignoring_failure("ip", "netns", "del", space.name)
    run_ignoring_failure("umount", "/run/netns")  # fails while others have namespaces there
    run_ignoring_failure("ip", "link", "del", BRIDGE)
    for family in ("ip", "ip6"):
        run_ignoring_failure("nft", "delete", "table", family, "kube-proxy")
    run_ignoring_failure("nft", "delete", "table", "ip", TABLE)


def run_ignoring_failure(*argv: str) -> None:
    """Often there is nothing to remove, which these programs report as a failure."""
    if shutil.which(argv[0]):
        subprocess.run(argv, check=False, capture_output=True, timeout=300)


def leftovers() -> list[str]:
    """What should be gone and is not."""
    left = [process.name for process in recorded() if process.group()]
    left += [f"process {pid}" for pid in {*shims(), *listeners()}] + mounts()
    left += [str(folder) for folder in pod_cgroups()]
    left += [str(path) for path in (STATE, RUNTIME, Path(f"/sys/class/net/{BRIDGE}"))
             if path.exists()]  # fmt: skip
    return left
