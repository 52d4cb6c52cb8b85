"""Where the test cluster lives: what was built, what runs, and on which addresses."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
BUILD = Path(os.environ.get("AGENTRL_CLUSTER_BUILD") or CACHE / "cluster").absolute()
"""Binaries and manifests: made once, kept."""
BIN = BUILD / "bin"
STATE = Path(os.environ.get("STATE") or CACHE / "cluster-state").absolute()
"""A running cluster: removed by `down`."""
DATA = STATE / "data"
"""What its stores and databases keep, in memory: a slow disk would have every write wait."""
DATA_SIZE = "6g"
"""At most; what a run of all tests keeps is a tenth of it."""

BRIDGE = "agentrl0"
IP = "10.244.0.1"
"""Of the bridge: every process outside a pod listens here, and pods reach it."""
POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
DNS_IP = "10.96.0.10"
NODE = "n1"
NAMESPACE = "kubeflow"
RUNTIME = Path("/run/agentrl-containerd")
"""containerd's own state: a short path, since it holds Unix sockets."""
SOCKET = Path("/run/agentrl-containerd.sock")
KUBECONFIG = STATE / "admin.kubeconfig"


class ClusterError(Exception):
    """The cluster could not do what was asked; the message names the log to read."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The object store's credentials: of a store that lives as long as one test."""

    access: str = "minio"
    secret: str = "minio123"


KEYS = Keys()


def configured(name: str, **more: object) -> Path:
    """Fill in `config/NAME` and put it into the state folder."""
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
