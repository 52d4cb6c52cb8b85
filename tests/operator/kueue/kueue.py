"""A real Kueue with a real kube-apiserver on loopback, stopped when the test ends.

with Kueue.started(folder, server) as kueue:
    server.create(queue)

`hack/cluster/services/kueue.py` says how it is run.
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
from pathlib import Path

from apiserver import PATIENCE_S, ApiServer, Refused, binary
from free_ports import free_ports

from cluster.services.kueue import NAMESPACE, apart, certify, command

API = "apis/kueue.x-k8s.io/v1beta2"
CRDS = "manifests/kueue-crds"


def missing() -> str | None:
    """The binaries that are missing; None if all are installed."""
    if binary("kueue") is None:
        return "no kueue; python hack/cluster build kueue builds it (four minutes on two cores)"
    if shutil.which("openssl") is None:
        return "no openssl to make a certificate for kueue"
    if shutil.which("unshare") is None or subprocess.run(apart("true"), check=False).returncode:
        return "no mount namespaces for kueue here"
    return None


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
        certify(folder / "certificates")
        webhooks, probes = free_ports(2)
        log = (folder / "kueue.log").open("wb")
        process = subprocess.Popen(
            [str(word) for word in command(path, folder, webhooks, f"127.0.0.1:{probes}")],
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
