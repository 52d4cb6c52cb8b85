"""Run other programs to their end, with a time limit; kubectl and ctr among them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster.settings import IP, KUBECONFIG, SOCKET, ClusterError


def run(
    *argv: object,
    stdin: str | None = None,
    seconds: float = 300,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program and return its standard output.

    Raises ClusterError if the program is missing, fails or exceeds `seconds`; the message ends
    with the last 2000 characters of the program's own output.
    """
    words = [str(word) for word in argv]
    shown = " ".join(words[:6])
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=seconds, cwd=cwd,
            env=os.environ | (env or {}), check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ClusterError(f"program {words[0]!r} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"`{shown}` took longer than {seconds:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise ClusterError(f"`{shown}` failed with {done.returncode}: {said}")
    return done.stdout


def works(*argv: object, seconds: float = 10) -> bool:
    """Whether a program succeeds within the time limit."""
    try:
        run(*argv, seconds=seconds)
    except ClusterError:
        return False
    return True


def kubectl(*argv: object, stdin: str | None = None, seconds: float = 300) -> str:
    return run("kubectl", "--kubeconfig", KUBECONFIG, *argv, stdin=stdin, seconds=seconds)


def ctr(*argv: object, seconds: float = 300) -> str:
    """containerd's own client, in the containerd namespace that holds the kubelet's images."""
    return run("ctr", "-a", SOCKET, "-n", "k8s.io", *argv, seconds=seconds)


def expose(
    namespace: str, name: str, *ports: tuple[str, int], cluster_ip: str | None = None
) -> None:
    """Create a Service for processes of this machine: without selector, with an EndpointSlice."""
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
