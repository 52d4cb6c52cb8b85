"""Paths, addresses and names of the local cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
BUILD = Path(os.environ.get("AGENTRL_CLUSTER_BUILD") or CACHE / "cluster").absolute()
"""Programs and manifests, built once and kept."""
BIN = BUILD / "bin"
STATE = Path(os.environ.get("STATE") or CACHE / "cluster-state").absolute()
"""Files of the running cluster; `down` removes the folder."""
DATA = STATE / "data"
"""Data of the object store and the databases: a tmpfs, because a slow disk delays every write."""
DATA_SIZE = "6g"
"""Size limit of that tmpfs. All end-to-end tests together use about a tenth of it."""

BRIDGE = "agentrl0"
IP = "10.244.0.1"
"""Address of the bridge. Every process outside a pod listens on it, and pods can reach it."""
POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
DNS_IP = "10.96.0.10"
NODE = "n1"
NAMESPACE = "kubeflow"
RUNTIME = Path("/run/agentrl-containerd")
"""State folder of containerd: short, because the paths of Unix sockets are limited in length."""
SOCKET = Path("/run/agentrl-containerd.sock")
KUBECONFIG = STATE / "admin.kubeconfig"


class ClusterError(Exception):
    """A step of starting, filling or stopping a cluster failed; the message says which."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials of the object store, which lives only as long as the cluster."""

    access: str = "minio"
    secret: str = "minio123"


KEYS = Keys()


def render_config(name: str, **more: object) -> Path:
    """Write `config/NAME` with its placeholders replaced to the state folder. Returns the path."""
    text = (HERE / "config" / name).read_text()
    values = {
        "BRIDGE": BRIDGE, "IP": IP, "POD_CIDR": POD_CIDR, "DNS_IP": DNS_IP, "NODE": NODE,
        "RUNTIME": RUNTIME, "SOCKET": SOCKET, "STATE": STATE, "NAMESPACE": NAMESPACE, **more,
    }  # fmt: skip
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    path = STATE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
