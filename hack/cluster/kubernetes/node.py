"""Start the node: the bridge, containerd, the kubelet, kube-proxy, the firewall and CoreDNS."""

from __future__ import annotations

import sys
from pathlib import Path

from cluster.command import expose, run, works
from cluster.images import oci_archive
from cluster.network.firewall import WRITTEN
from cluster.processes import LOGS, start, wait_until
from cluster.settings import (
    BIN,
    BRIDGE,
    DNS_IP,
    HERE,
    IP,
    KUBECONFIG,
    NODE,
    SOCKET,
    STATE,
    render_config,
)  # fmt: skip


def create_bridge() -> None:
    """Create the bridge, whose address every process of the cluster listens on."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "replace", f"{IP}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # The first `ip netns add` bind-mounts /run/netns on itself. If that happens after the first pod
    # got its namespace, containerd cannot remove the namespace below the mount; so do it now.
    run("ip", "netns", "add", f"cni-{BRIDGE}")
    run("ip", "netns", "del", f"cni-{BRIDGE}")


def start_containerd() -> None:
    render_config("cni/10-bridge.conflist")
    start("containerd", ["containerd", "-c", render_config("containerd.toml")])


def start_kubelet() -> None:
    """Start what runs pods and needs the API server; `wait_ready` waits until the node is ready."""
    wait_until("containerd", SOCKET.is_socket, log=LOGS / "containerd.log")
    render_config("resolv.conf")
    (STATE / "kubelet").mkdir(exist_ok=True)
    start("kubelet", [
        BIN / "kubelet", "--config", render_config("kubelet.yaml"),
        "--kubeconfig", STATE / "node.kubeconfig", "--hostname-override", NODE, "--node-ip", IP,
        "--root-dir", STATE / "kubelet", "--cert-dir", STATE / "kubelet/pki",
        # no test reads the resource usage of containers, and hundreds of ended ones exist
        "--housekeeping-interval=60s",
    ])  # fmt: skip
    start("kube-proxy", [BIN / "kube-proxy", "--config", render_config("kube-proxy.yaml")])
    start(
        "firewall",
        [sys.executable, "-m", "cluster.network.firewall"],
        env={"PYTHONPATH": HERE.parent},
    )
    start("coredns", [BIN / "coredns", "-conf", render_config("Corefile")])
    expose("kube-system", "kube-dns", ("UDP", 53), ("TCP", 53), cluster_ip=DNS_IP)
    oci_archive.load("pause", {"pause": BIN / "pause"})
    oci_archive.load("busybox", {"bin/busybox": Path("/bin/busybox")}, links={"bin/sh": "busybox"})


def wait_ready() -> None:
    wait_until("the node to be Ready", is_ready, log=LOGS / "kubelet.log", seconds=300)
    wait_until("the first rules of the firewall", WRITTEN.exists, log=LOGS / "firewall.log")


def is_ready() -> bool:
    return works(
        "kubectl", "--kubeconfig", KUBECONFIG, "wait", "--for=condition=Ready", f"node/{NODE}",
        "--timeout=1s",
    )  # fmt: skip
