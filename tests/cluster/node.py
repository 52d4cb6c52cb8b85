"""The one node: a bridge, containerd, the kubelet, kube-proxy and our firewall, and CoreDNS."""

from __future__ import annotations

import sys
from pathlib import Path

import archive
from command import expose, run, works
from firewall import WRITTEN
from place import (
    BIN,
    BRIDGE,
    DNS_IP,
    HERE,
    IP,
    KUBECONFIG,
    NODE,
    SOCKET,
    STATE,
    configured,
)  # fmt: skip
from processes import LOGS, start, until


def network() -> None:
    """The bridge comes first: every process of the cluster listens on its address."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "addr", "replace", f"{IP}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # The first `ip netns add` of anybody mounts its folder over itself. Later than the first pod's
    # namespace, it would leave a mount below, which keeps containerd from removing any pod.
    run("ip", "netns", "add", f"cni-{BRIDGE}")
    run("ip", "netns", "del", f"cni-{BRIDGE}")


def runtime() -> None:
    configured("cni/10-bridge.conflist")
    start("containerd", ["containerd", "-c", configured("containerd.toml")])


def begin() -> None:
    """Start what runs pods; needs the API server. `wait` says when the node is ready."""
    until("containerd", SOCKET.is_socket, log=LOGS / "containerd.log")
    configured("resolv.conf")
    (STATE / "kubelet").mkdir(exist_ok=True)
    start("kubelet", [
        BIN / "kubelet", "--config", configured("kubelet.yaml"),
        "--kubeconfig", STATE / "node.kubeconfig", "--hostname-override", NODE, "--node-ip", IP,
        "--root-dir", STATE / "kubelet", "--cert-dir", STATE / "kubelet/pki",
        # nobody asks here what each container uses, and hundreds that are over lie about
        "--housekeeping-interval=60s",
    ])  # fmt: skip
    start("kube-proxy", [BIN / "kube-proxy", "--config", configured("kube-proxy.yaml")])
    start("firewall", [sys.executable, HERE / "firewall.py"])
    start("coredns", [BIN / "coredns", "-conf", configured("Corefile")])
    expose("kube-system", "kube-dns", ("UDP", 53), ("TCP", 53), cluster_ip=DNS_IP)
    archive.load("pause", {"pause": BIN / "pause"})
    archive.load("busybox", {"bin/busybox": Path("/bin/busybox")}, links={"bin/sh": "busybox"})


def wait() -> None:
    until("the node to be Ready", ready, log=LOGS / "kubelet.log", seconds=300)
    until("the first rules", WRITTEN.exists, log=LOGS / "firewall.log")


def ready() -> bool:
    return works(
        "kubectl", "--kubeconfig", KUBECONFIG, "wait", "--for=condition=Ready", f"node/{NODE}",
        "--timeout=1s",
    )  # fmt: skip
