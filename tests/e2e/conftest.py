"""The chart, installed on the cluster of hack/cluster, with images of this checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from forward import Forward
from installed import NAMESPACE, ROOT, RUNS, Installed, manifest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
FOUND = "service/ml-pipeline\n"
BUILT = CACHE / "cluster/bin/helm"
FORWARDED = {
    "kfp": ("ml-pipeline", 8888),
    "mlflow": ("agentrl-mlflow", 5000),
    "s3": ("minio-service", 9000),
}
"""Services that the tests ask, where they are not at addresses of this machine."""


@pytest.fixture(scope="session")
def helm() -> str:
    """Where Helm is: where hack/cluster builds it, or on PATH."""
    found = str(BUILT) if BUILT.exists() else shutil.which("helm")
    assert found, "no helm here; install Helm 3.14 or later"
    return found


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest) -> Iterator[Installed]:
    """AgentRL in KFP's namespace. Skipped where no cluster is up: `make e2e` starts one."""
    where = chosen()
    there = Installed(where["kubeconfig"], own=where["name"] == "local")
    answer = ["get", "service", "ml-pipeline", "-o", "name", "--request-timeout=10s"]
    if not shutil.which("kubectl") or there.kubectl(*answer, check=False) != FOUND:
        pytest.skip("no cluster is up: `make cluster images` starts one and fills it")
    others = there.kubectl("get", "agentrlruns", "-o", "name", check=False).split()
    strange = [name for name in others if name.startswith("agentrlrun") and not ours(name)]
    if where["name"] == "external" and strange:
        pytest.fail(f"runs that are not of these tests are there: {', '.join(strange)}")
    install(request.getfixturevalue("helm"), where["kubeconfig"], where["values"])
    there.kubectl("delete", "agentrlruns", "--all", "--timeout=600s")
    if there.own:
        yield there
        return
    store = where["values"].get("storage.url", "s3://mlpipeline/agentrl")
    with ExitStack() as stack:
        urls = {}
        for name, (service, port) in FORWARDED.items():
            if name == "s3" and "storage.endpoint" in where["values"]:
                service = "seaweedfs"
            kubectl = ("kubectl", "--kubeconfig", where["kubeconfig"], "-n", NAMESPACE)
            forward = Forward(kubectl, service, port)
            urls[name] = stack.enter_context(forward)
            assert forward.answers(300), f"service/{service} is not reached by port-forward"
        yield Installed(where["kubeconfig"], own=False, root=store, **urls)


def chosen() -> dict[str, Any]:
    """The selected cluster."""
    command = [sys.executable, str(ROOT / "hack/cluster"), "where"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if told.returncode:
        pytest.fail(told.stderr)
    where: dict[str, Any] = json.loads(told.stdout)
    return where


def ours(name: str) -> bool:
    """Whether a run is one that these tests make: they delete those."""
    return name.rpartition("/")[2].startswith(RUNS)


def install(helm: str, kubeconfig: str, values: Mapping[str, str]) -> None:
    """The chart, or bring it up to date."""
    values = {"kfp.namespace": NAMESPACE, **values}
    told = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    subprocess.run(
        [helm, "upgrade", "--install", "agentrl", ROOT / "helm/agentrl", "-n", NAMESPACE,
         "--wait", "--timeout", "1200s", *told],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        timeout=1260,
        check=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def paused(installed: Installed) -> tuple[str, int]:
    """A run that is suspended half way, until nothing of it is left, and resumed. Its uid, and the
    iterations it had done."""
    name, label = "pause", {"agentrl.dev/run": "pause"}
    uid = installed.apply(manifest(name))
    installed.until_iteration(name, 4, 1200)
    installed.suspend(name, True)
    installed.until_state(name, "Suspended", 600)
    gone = "a suspended run's pods are gone"
    installed.until(gone, lambda: not list(installed.pods(**label)), 600)
    before = installed.status(name)["iteration"]
    installed.suspend(name, False)
    return uid, before


@pytest.fixture(scope="session")
def calm(installed: Installed, request: pytest.FixtureRequest) -> tuple[str, str]:
    """A run that nothing happened to, rollout and update apart: its name and uid. Beside it, since
    both wait a lot, is the one that is `paused`."""
    uid = installed.apply(manifest("calm", compute={"placement": "disaggregated"}))
    request.getfixturevalue("paused")
    for name in ("calm", "pause"):
        installed.until_state(name, "Succeeded", 2400)
    return "calm", uid
