"""A real Kueue with a real kube-apiserver on loopback, stopped when the test ends.

with Kueue.started(folder, server) as kueue:
    server.create(queue)

The manager runs unchanged but without its webhooks, because the API server cannot reach a Service
without a cluster network. It reads the certificate of its metrics from a fixed path under /etc, so
it runs in a mount namespace with an /etc of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from apiserver import PATIENCE_S, ApiServer, Refused, binary, free_ports
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

API = "apis/kueue.x-k8s.io/v1beta2"
NAMESPACE = "kueue-system"
CRDS = "manifests/kueue-crds"
OWN_ETC = """
set -e
mount -t tmpfs tmpfs /etc
mkdir -p /etc/kueue/metrics
cp -r "$1" /etc/kueue/metrics/certs
shift
exec "$@"
"""


def missing() -> str | None:
    """The binaries that are missing; None if all are installed."""
    if binary("kueue") is None:
        return "no kueue; python hack/cluster build kueue builds it (four minutes on two cores)"
    if shutil.which("unshare") is None or subprocess.run(apart("true"), check=False).returncode:
        return "no mount namespaces for kueue here"
    return None


def apart(*command: str) -> list[str]:
    """A command that runs in a mount namespace of its own."""
    alone = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    return [*alone, *command]


@dataclass(slots=True)
class Kueue:
    """A running manager of Kueue."""

    server: ApiServer
    process: subprocess.Popen[bytes]

    @classmethod
    @contextmanager
    def started(cls, folder: Path, server: ApiServer) -> Iterator[Kueue]:
        """Install the CRDs and start the manager; its log is in `folder`."""
        path = binary("kueue")
        assert path is not None, missing()
        installed(server, path.parents[1] / CRDS)
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        certificates = folder / "certificates"
        certified(certificates)
        webhooks, probes = free_ports(2)
        config = folder / "kueue.yaml"
        config.write_text(yaml.safe_dump(configuration(webhooks, probes, certificates)))
        log = (folder / "kueue.log").open("wb")
        process = subprocess.Popen(
            apart("sh", "-c", OWN_ETC, "kueue", str(certificates), str(path), f"--config={config}"),
            stdout=log,
            stderr=log,
            env=os.environ | {"KUBECONFIG": str(server.kubeconfig), "USER": "kueue"},
        )
        log.close()
        try:
            yield cls(server, process)
        finally:
            process.kill()
            process.wait()


def installed(server: ApiServer, folder: Path) -> None:
    """Install the CRDs of Kueue and wait until they are served."""
    crds = list(folder.glob("*.yaml"))
    with ThreadPoolExecutor() as pool:
        list(pool.map(server.install, crds))
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(Refused):
            served = server.ask("GET", API)["resources"]
            if len([one for one in served if "/" not in one["name"]]) == len(crds):
                return
        assert time.monotonic() < deadline, "Kueue's kinds are not served"
        time.sleep(0.1)


def configuration(webhooks: int, probes: int, certificates: Path) -> dict[str, Any]:
    """The default configuration of Kueue, without parts that need a cluster network."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{probes}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": webhooks, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False},
    }


def certified(folder: Path) -> None:
    """A self-signed certificate for the webhooks."""
    folder.mkdir(parents=True)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kueue")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
