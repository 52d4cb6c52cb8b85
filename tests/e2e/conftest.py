"""Installs the chart on the cluster that hack/cluster selects, and starts the runs of the tests.

A run waits for pods most of the time, so the tests share a few runs that proceed side by side:

    calm    disaggregated, undisturbed        examined when it has succeeded
    pause   suspended and resumed             compared with calm
    gone    works until it is deleted         the network is tested on its pods meanwhile
    swept   has a model for which the 64 MB of shared memory that containers have are too few;
            deleted with its records
    quota   wants a GPU, which a quota does not allow
    storm   started when calm has succeeded   its pods and services are killed; compared with calm
"""

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

import certifi
import pytest
from forward import Forward
from installed import CACHE, NAMESPACE, ROOT, Installed
from run_manifests import RUNS, manifest, tiny_manifest
from xdist.scheduler import LoadScopeScheduling

FOUND = "service/ml-pipeline\n"
BUILT = CACHE / "cluster/bin/helm"
FORWARDED = {
    "kfp": ("ml-pipeline", 8888),
    "mlflow": ("agentrl-mlflow", 5000),
    "s3": ("minio-service", 9000),
}
"""Services that the tests call; forwarded to ports of this machine unless the cluster is local."""
WIDE = {"layers": 1, "hidden": 512, "heads": 8, "kvHeads": 8, "intermediate": 3072}
"""Sizes of a model of 5.8 million parameters. Weights and gradients need 70 MB."""
NO_GPUS = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "no-gpus", "namespace": NAMESPACE},
    "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
}
"""A quota that concerns only pods that request GPUs."""
AUTHORITIES = "authorities"
"""Name of the ConfigMap with the certificates that all pods trust."""
NO_SUCH_PROXY = "http://127.0.0.1:9"
"""Nobody listens there: pods that used the proxy for a host inside the cluster would fail."""
VALUES = {
    "kfp.namespace": NAMESPACE,
    "caBundle.configMap": AUTHORITIES,
    "proxy.http": NO_SUCH_PROXY,
    "proxy.https": NO_SUCH_PROXY,
}
"""Values of the chart on every cluster."""
ORDER = (
    "test_install",
    "test_validation",
    "test_retention",
    "test_worlds",
    "test_network",
    "test_quota",
    "test_deletion",
    "test_run",
    "test_suspension",
    "test_faults",
    "test_ray",
    "test_sandboxes",
)
"""Order of the test files: those that wait for a run to end come last."""


class LoadFolderScheduling(LoadScopeScheduling):
    """Scheduler of pytest-xdist that gives all tests of a folder to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return "/".join(nodeid.split("/")[:2])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFolderScheduling | None:
    """With `--dist loadscope`: tests of this folder share one installation, hence one worker."""
    if config.getvalue("dist") != "loadscope":
        return None
    return LoadFolderScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests of this folder by ORDER."""
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else -1)


@pytest.fixture(scope="session")
def helm() -> str:
    """Path of Helm: the one that hack/cluster built, or the one on PATH."""
    found = str(BUILT) if BUILT.exists() else shutil.which("helm")
    assert found, "helm is not installed; install Helm 3.14 or later"
    return found


@pytest.fixture(scope="session")
def installed(request: pytest.FixtureRequest) -> Iterator[Installed]:
    """AgentRL in the namespace of KFP. Skips if no cluster is running: `make e2e` starts one."""
    cluster = selected_cluster()
    installation = Installed(cluster["kubeconfig"], local=cluster["name"] == "local")
    query = ["get", "service", "ml-pipeline", "-o", "name", "--request-timeout=10s"]
    if not shutil.which("kubectl") or installation.kubectl(*query, check=False) != FOUND:
        pytest.skip("no cluster is running: `make cluster images` starts one and loads the images")
    runs = installation.kubectl("get", "agentrlruns", "-o", "name", check=False).split()
    foreign = [name for name in runs if name.startswith("agentrlrun") and not is_ours(name)]
    if cluster["name"] == "external" and foreign:
        pytest.fail(f"the cluster has runs that these tests did not create: {', '.join(foreign)}")
    values = cluster["values"]
    if installation.local and (CACHE / "cluster/bin/kueue").exists():
        installation.local_cluster("kueue")  # before the chart, as docs/install.md says
        values |= {"kueue.admission": "run"}
    installation.kubectl("apply", "-f", "-", stdin=json.dumps(authorities()))
    install(request.getfixturevalue("helm"), cluster["kubeconfig"], values)
    installation.kubectl("delete", "agentrlruns", "--all", "--timeout=600s")
    if installation.local:
        yield installation
        return
    store = cluster["values"].get("storage.url", "s3://mlpipeline/agentrl")
    with ExitStack() as stack:
        urls = {}
        for name, (service, port) in FORWARDED.items():
            if name == "s3" and "storage.endpoint" in cluster["values"]:
                service = "seaweedfs"
            kubectl = ("kubectl", "--kubeconfig", cluster["kubeconfig"], "-n", NAMESPACE)
            forward = Forward(kubectl, service, port)
            urls[name] = stack.enter_context(forward)
            assert forward.answers(300), f"port-forward does not reach service/{service}"
        yield Installed(cluster["kubeconfig"], local=False, root=store, **urls)


def selected_cluster() -> dict[str, Any]:
    """The output of `python hack/cluster where`."""
    command = [sys.executable, str(ROOT / "hack/cluster"), "where"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.fail(done.stderr)
    cluster: dict[str, Any] = json.loads(done.stdout)
    return cluster


def is_ours(name: str) -> bool:
    """Whether these tests created a run, which they may delete."""
    return name.rpartition("/")[2].startswith(RUNS)


def authorities() -> dict[str, Any]:
    """The ConfigMap with the certificates: one of a public authority."""
    first, end, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": AUTHORITIES, "namespace": NAMESPACE},
        "data": {"ca.crt": f"{first}{end}\n"},
    }


def install(helm: str, kubeconfig: str, values: Mapping[str, str]) -> None:
    """Install or upgrade the chart."""
    values = {**VALUES, **values}
    options = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    subprocess.run(
        [helm, "upgrade", "--install", "agentrl", ROOT / "helm/agentrl", "-n", NAMESPACE,
         "--wait", "--timeout", "1200s", *options],
        env={**os.environ, "KUBECONFIG": kubeconfig},
        timeout=1260,
        check=True,
    )  # fmt: skip


@pytest.fixture(scope="session")
def uids(installed: Installed) -> dict[str, str]:
    """Start the runs that proceed side by side. Returns their uids by name."""
    endless = {"phases": [{"maxTurns": 3, "iterations": 500}], "alarms": []}
    working = {
        "horizon": endless,
        "evaluation": {"tasks": 20, "maxTurns": 3},
        "update": {"checkpointEvery": 1000},
        "compute": {"cpu": "100m"},  # a smaller share of the CPU than the others have
    }
    manifests = (
        manifest("pause"),
        manifest("calm", compute={"placement": "disaggregated"}),
        manifest("gone", **working),
        tiny_manifest(
            "swept",
            model={"tiny": WIDE},
            horizon=endless,
            storage={"onDelete": "delete"},
            compute={"memory": "1Gi"},
        ),
        tiny_manifest("quota", compute={"gpus": 1}),
    )
    installed.kubectl("apply", "-f", "-", stdin=json.dumps(NO_GPUS))
    return {one["metadata"]["name"]: installed.apply(one) for one in manifests}


@pytest.fixture(scope="session")
def paused(installed: Installed, uids: dict[str, str]) -> tuple[str, int]:
    """Suspend a run half way, wait until its pods are gone, and resume it.

    Returns its uid and the iterations that it had done when it was suspended.
    """
    installed.until_iteration("pause", 4, 1200)
    installed.suspend("pause", True)
    installed.until_state("pause", "Suspended", 600)
    installed.until(
        "the pods of a suspended run are gone",
        lambda: not list(installed.pods(**{"agentrl.dev/run": "pause"})),
        600,
    )
    before = installed.status("pause")["iteration"]
    installed.suspend("pause", False)
    return uids["pause"], before


@pytest.fixture(scope="session")
def working(installed: Installed, uids: dict[str, str], paused: tuple[str, int]) -> str:
    """Name of a run that has done an iteration and goes on until it is deleted.

    Depends on `paused`, which has to observe its run while that is at work.
    """
    del uids, paused
    installed.until_iteration("gone", 2, 1200)
    return "gone"


@pytest.fixture(scope="session")
def calm(installed: Installed, uids: dict[str, str], paused: tuple[str, int]) -> tuple[str, str]:
    """Wait until the undisturbed run has succeeded. Returns its name and uid."""
    del paused
    installed.until_state("calm", "Succeeded", 2400)
    return "calm", uids["calm"]


@pytest.fixture(scope="session")
def storm(installed: Installed, calm: tuple[str, str]) -> str:
    """Start the run that will be disturbed, after the end of the one that must not be.

    Returns its uid.
    """
    del calm
    return installed.apply(manifest("storm", compute={"placement": "disaggregated"}))
