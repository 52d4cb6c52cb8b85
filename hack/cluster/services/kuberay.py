"""KubeRay's operator, which makes Ray clusters. Built on request: `hack/cluster build kuberay`."""

from __future__ import annotations

from cluster import processes
from cluster.command import kubectl
from cluster.settings import BIN, BUILD, KUBECONFIG

CRDS = BUILD / "manifests/kuberay-crds"


def start() -> None:
    """Install KubeRay's CRDs and start its operator, unless it runs."""
    if processes.is_alive("kuberay"):
        return
    # they are too large for the annotation of a client-side apply
    kubectl("apply", "--server-side", "-f", CRDS)
    processes.start(
        "kuberay",
        [BIN / "kuberay", "--kubeconfig", KUBECONFIG, "--enable-leader-election=false",
         "--metrics-addr=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"],
    )  # fmt: skip
