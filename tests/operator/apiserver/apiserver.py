"""A real kube-apiserver with a real etcd on loopback, stopped when the test ends.

with ApiServer.started(folder) as server:
    server.apply(manifest)
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from free_ports import free_ports

TOKEN = "loopback-tests-only"
OPERATOR_TOKEN = "loopback-tests-only-operator"
"""Token of the user `operator`, which has no permissions without a role."""
PATIENCE_S = 300.0
"""Timeout for what usually takes seconds: a busy machine may stall."""


class Refused(Exception):
    """The API server rejected a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def binary(name: str) -> Path | None:
    """The path of a binary in KUBEBUILDER_ASSETS, PATH or the build folder of our test cluster."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = os.environ.get("AGENTRL_CLUSTER_BUILD") or cache / "agentrl" / "cluster"
    for folder in (os.environ.get("KUBEBUILDER_ASSETS"), Path(build) / "bin"):
        if folder and os.access(Path(folder) / name, os.X_OK):
            return Path(folder) / name
    found = shutil.which(name)
    return Path(found) if found else None


def missing() -> str | None:
    """The binaries that are missing; None if all are installed."""
    lacking = [name for name in ("etcd", "kube-apiserver") if binary(name) is None]
    return f"no {' and no '.join(lacking)} in KUBEBUILDER_ASSETS or PATH" if lacking else None


@dataclass(slots=True)
class ApiServer:
    """A running kube-apiserver with its etcd."""

    folder: Path
    url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[ApiServer]:
        """Start a server and wait until it is ready; its logs are in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        clients, peers, port = free_ports(3)
        server = cls(folder, f"https://127.0.0.1:{port}")
        try:
            server._run(
                "etcd",
                f"--data-dir={folder / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{clients}",
                f"--advertise-client-urls=http://127.0.0.1:{clients}",
                f"--listen-peer-urls=http://127.0.0.1:{peers}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
                f"--initial-cluster=default=http://127.0.0.1:{peers}",
                "--unsafe-no-fsync",
            )
            server._keys()
            server._run(
                "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{clients}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--cert-dir={folder / 'certificates'}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                f"--service-account-key-file={folder / 'sa.key'}",
                f"--service-account-signing-key-file={folder / 'sa.key'}",
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.0.0.0/16",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount",
                "--shutdown-delay-duration=0s",
            )
            server._wait()
            yield server
        finally:
            server._stop()

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self._kubeconfig("admin", TOKEN)

    @property
    def operator_kubeconfig(self) -> Path:
        """Kubeconfig of the user `operator`."""
        return self._kubeconfig("operator", OPERATOR_TOKEN)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = "application/json",
    ) -> dict[str, Any]:
        """A request as the administrator; a `body` of bytes is sent as it is, and its response is
        not parsed. Raises `Refused`."""
        raw = isinstance(body, bytes)
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=body if raw or body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": kind},
        )
        context = ssl._create_unverified_context()
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(request, timeout=PATIENCE_S) as response:
                text = response.read()
                return json.loads(text) if text.startswith(b"{") and not raw else {}
        except urllib.error.HTTPError as error:
            text = error.read()
            with suppress(json.JSONDecodeError):
                raise Refused(error.code, json.loads(text).get("message", "")) from None
            raise Refused(error.code, text.decode()) from None

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return self.ask("POST", collection(manifest), manifest)

    def install(self, crd: Path) -> None:
        """Create a CustomResourceDefinition and wait until it is served."""
        manifest = yaml.safe_load(crd.read_text())
        path = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.ask("POST", path, manifest)
        group, name = manifest["spec"]["group"], manifest["spec"]["names"]["plural"]
        version = manifest["spec"]["versions"][0]["name"]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.ask("GET", f"apis/{group}/{version}/{name}")
                return
            except Refused:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _run(self, name: str, *flags: str) -> None:
        path = binary(name)
        assert path is not None, missing()
        log = (self.folder / f"{name}.log").open("wb")
        self.processes.append(subprocess.Popen([path, *flags], stdout=log, stderr=log))
        log.close()

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.ask("GET", "readyz")
                self.ask("GET", "api/v1/namespaces/default")
                return
            except (Refused, OSError) as error:
                dead = any(process.poll() is not None for process in self.processes)
                if dead or time.monotonic() > deadline:
                    raise RuntimeError(f"not ready ({error}); see {self.folder}/*.log") from None
                time.sleep(0.1)

    def _stop(self) -> None:
        # The API server waits for etcd when asked to end: it is killed.
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def _keys(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "sa.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        tokens = f'{TOKEN},admin,1,"system:masters"\n{OPERATOR_TOKEN},operator,2\n'
        (self.folder / "tokens.csv").write_text(tokens)

    def _kubeconfig(self, user: str, token: str) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(config))
        return path


def collection(manifest: dict[str, Any]) -> str:
    """The path of an object's kind in its namespace."""
    version, kind = manifest["apiVersion"], manifest["kind"].lower()
    api = f"apis/{version}" if "/" in version else f"api/{version}"
    namespace = manifest["metadata"].get("namespace")
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"{api}/namespaces/{namespace}/{plural}" if namespace else f"{api}/{plural}"
