"""agent-sandbox's controller. Built on request: `hack/cluster build agent-sandbox`."""

from __future__ import annotations

from cluster import processes
from cluster.command import kubectl
from cluster.settings import BIN, BUILD, KUBECONFIG

CRD = BUILD / "manifests/agent-sandbox-crds/agents.x-k8s.io_sandboxes.yaml"


def start() -> None:
    """Install the CRD of Sandboxes and start the controller, unless it runs. Its webhook, which
    converts objects of the older version v1alpha1, is off."""
    if processes.is_alive("agent-sandbox"):
        return
    kubectl("apply", "--server-side", "-f", CRD)
    processes.start(
        "agent-sandbox",
        [BIN / "agent-sandbox", "--kubeconfig", KUBECONFIG, "--leader-elect=false",
         "--enable-webhook=false", "--manage-webhook-certs=false",
         "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"],
    )  # fmt: skip
