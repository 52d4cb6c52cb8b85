"""Other programs, run to their end: bounded in time, and their own words when they fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from place import IP, KUBECONFIG, SOCKET, ClusterError


def run(
    *argv: object,
    stdin: str | None = None,
    seconds: float = 300,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Its standard output. Raises ClusterError with the end of what it said."""
    words = [str(word) for word in argv]
    shown = " ".join(words[:6])
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=seconds, cwd=cwd,
            env=os.environ | (env or {}), check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ClusterError(f"no program {words[0]!r} here") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{shown}` took longer than {seconds:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ClusterError(f"`{shown}` failed with {done.returncode}: {said}")
    return done.stdout


def works(*argv: object, seconds: float = 10) -> bool:
    """Whether a program ends well, in time."""
    try:
        run(*argv, seconds=seconds)
    except ClusterError:
        return False
    return True


def kubectl(*argv: object, stdin: str | None = None, seconds: float = 300) -> str:
    return run("kubectl", "--kubeconfig", KUBECONFIG, *argv, stdin=stdin, seconds=seconds)


def ctr(*argv: object, seconds: float = 300) -> str:
    """containerd's own client, in the namespace where the kubelet's images are."""
    return run("ctr", "-a", SOCKET, "-n", "k8s.io", *argv, seconds=seconds)


def expose(
    namespace: str, name: str, *ports: tuple[str, int], cluster_ip: str | None = None
) -> None:
    """A Service in front of processes of this machine: no selector, but an EndpointSlice."""
    listed = ", ".join(
        f"{{name: {protocol.lower()}-{port}, protocol: {protocol}, port: {port}}}"
        for protocol, port in ports
    )
    fixed = f"clusterIP: {cluster_ip}, " if cluster_ip else ""
    kubectl("apply", "-f", "-", stdin=f"""
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{fixed}ports: [{listed}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: {name}-host
  namespace: {namespace}
  labels: {{kubernetes.io/service-name: {name}}}
addressType: IPv4
endpoints: [{{addresses: [{IP}], conditions: {{ready: true}}}}]
ports: [{listed}]
""")  # fmt: skip
