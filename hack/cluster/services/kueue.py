"""Kueue's manager. Built on request: `hack/cluster build kueue`.

It runs unchanged but without its webhooks, because it is no Service of the cluster. It reads the
certificate of its metrics from a fixed path under /etc, so it runs in a mount namespace with an
/etc of its own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cluster import processes
from cluster.command import kubectl, run
from cluster.settings import BIN, BUILD, KUBECONFIG, STATE

CRDS = BUILD / "manifests/kueue-crds"
NAMESPACE = "kueue-system"
WEBHOOK_PORT = 19443
OWN_ETC = """
set -e
mount -t tmpfs tmpfs /etc
mkdir -p /etc/kueue/metrics
cp -r "$1" /etc/kueue/metrics/certs
shift
exec "$@"
"""


def start() -> None:
    """Install Kueue's CRDs and start its manager, unless it runs."""
    if processes.is_alive("kueue"):
        return
    # they are too large for the annotation of a client-side apply
    kubectl("apply", "--server-side", "-f", CRDS)
    kubectl("wait", "--for=condition=Established", "-f", CRDS, "--timeout=60s")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kubectl("apply", "-f", "-", stdin=json.dumps(namespace))
    folder = STATE / "kueue"
    certify(folder / "certificates")
    processes.start(
        "kueue",
        command(BIN / "kueue", folder, WEBHOOK_PORT, "127.0.0.1:0"),
        {"KUBECONFIG": KUBECONFIG, "USER": "kueue"},
    )


def command(binary: Path, folder: Path, webhook_port: int, health: str) -> list[object]:
    """The command that starts the manager with the certificate in `folder`. Writes its
    configuration there; `health` is the address of its probes."""
    certificates = folder / "certificates"
    config = folder / "kueue.json"
    config.write_text(json.dumps(configuration(webhook_port, health, certificates)))
    return apart("sh", "-c", OWN_ETC, "kueue", certificates, binary, f"--config={config}")


def apart(*words: object) -> list[object]:
    """A command that runs in a mount namespace of its own."""
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    return [*alone, *words]


def certify(folder: Path) -> None:
    """Write a self-signed certificate for the webhooks and the metrics."""
    folder.mkdir(parents=True, exist_ok=True)
    run(
        "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key",
        "-out", "tls.crt", "-days", 1, "-subj", "/CN=kueue", cwd=folder,
    )  # fmt: skip


def configuration(webhook_port: int, health: str, certificates: Path) -> dict[str, Any]:
    """The default configuration of Kueue, without parts that need a cluster network."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": health},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhook_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }
