"""AgentRL as installed on a cluster, as seen with kubectl, HTTP clients and an S3 client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from agentrl_components.spec import Storage
from agentrl_components.storage import keys
from agentrl_components.storage.open import open_store
from agentrl_components.storage.store import Store

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "hack/cluster"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentrl"
NAMESPACE = "kubeflow"
POLL_S = 0.5
AWAY_S = 4.0
"""Seconds between the kill and the restart of a process of the local cluster."""
PODS = {
    "minio": "app in (minio, seaweedfs)",
    "kfp-apiserver": "app=ml-pipeline",
    "mlflow": "app.kubernetes.io/instance=agentrl,app.kubernetes.io/component=mlflow",
}
"""Label selectors of the services beside AgentRL, by the names of the local cluster's processes."""


@dataclass(frozen=True)
class Installed:
    """An installation, and the services beside it."""

    kubeconfig: str
    local: bool = True
    """On the local cluster, whose services are processes here; elsewhere they are pods."""
    kfp: str = "http://10.244.0.1:8888"
    mlflow: str = "http://10.244.0.1:5000"
    s3: str = "http://10.244.0.1:9000"
    root: str = "s3://agentrl"
    """Store of runs whose manifest does not name one."""

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """Standard output of kubectl. With `check`, raises AssertionError if kubectl fails.

        Standard error is left out: kubectl logs there while it succeeds, too, such as warnings of
        the API server and of its own streams.
        """
        done = self._run(words, stdin)
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def refusal(self, *words: str, stdin: str | None = None) -> str:
        """Why kubectl fails: its standard error. Raises AssertionError if kubectl succeeds."""
        done = self._run(words, stdin)
        assert done.returncode != 0, f"kubectl {' '.join(words)} succeeded: {done.stdout}"
        return done.stderr

    def _run(
        self, words: tuple[str, ...], stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", "-n", NAMESPACE, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=660,
            check=False,
            env={**os.environ, "KUBECONFIG": self.kubeconfig},
        )

    def get(self, kind: str, *words: str) -> Any:
        """Objects, parsed."""
        return json.loads(self.kubectl("get", kind, *words, "-o", "json"))

    def apply(self, manifest: dict[str, Any]) -> str:
        """Create a run. Returns its uid."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
        uid: str = self.get("agentrlruns", manifest["metadata"]["name"])["metadata"]["uid"]
        return uid

    def suspend(self, name: str, suspended: bool) -> None:
        """Suspend or resume a run."""
        change = json.dumps({"spec": {"suspend": suspended}})
        self.kubectl("patch", "arl", name, "--type=merge", f"-p={change}")

    def status(self, name: str) -> dict[str, Any]:
        """Status of a run; empty before it has one."""
        status: dict[str, Any] = self.get("agentrlruns", name).get("status", {})
        return status

    def until(
        self, what: str, ready: Callable[[], T | None], within_s: float, poll_s: float = POLL_S
    ) -> T:
        """Poll `ready` until its result is true, and return that. Fails after `within_s`."""
        deadline = time.monotonic() + within_s
        while True:
            answer = ready()
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not in {within_s:.0f} s: {what}\n{self.report()}"
            time.sleep(poll_s)

    def until_state(self, name: str, state: str, within_s: float) -> dict[str, Any]:
        """The status once the run is in `state`. Fails at once if the run ends in another one."""

        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            now = status.get("state")
            ended = now in ("Succeeded", "Failed") and now != state
            assert not ended, f"{name} is {now}: {status.get('message')}\n{self.report()}"
            return status if now == state else None

        return self.until(f"{name} is {state}", reached, within_s)

    def until_iteration(self, name: str, iteration: int, within_s: float) -> None:
        """Wait until a run has done this many iterations."""
        self.until(
            f"{name} has done {iteration} iterations",
            lambda: self.status(name).get("iteration", 0) >= iteration or None,
            within_s,
        )

    def report(self) -> str:
        """Runs, pods and the end of the operator's log, for the message of a failed test."""
        asked = (
            ("get", "agentrlruns", "-o", "wide"),
            ("get", "pods", "--sort-by=.metadata.creationTimestamp"),
            ("logs", "deploy/agentrl", "--tail=30"),
        )
        answers = [self._run(words) for words in asked]
        return "\n".join(answer.stdout + answer.stderr for answer in answers)

    def kfp_run(self, run_id: str) -> dict[str, Any]:
        """A run of KFP, from its API."""
        run: dict[str, Any] = (
            httpx.get(f"{self.kfp}/apis/v2beta1/runs/{run_id}").raise_for_status().json()
        )
        return run

    def kfp_runs(self, uid: str) -> list[dict[str, Any]]:
        """The KFP runs of an AgentRLRun, oldest first."""
        answer = httpx.get(f"{self.kfp}/apis/v2beta1/runs", params={"page_size": 200})
        return [
            run
            for run in sorted(answer.raise_for_status().json().get("runs", []), key=created)
            if uid[:8] in json.dumps(run.get("runtime_config", {}))
        ]

    def store(self, url: str) -> Store:
        """The store at a URL."""
        os.environ.setdefault("AWS_ACCESS_KEY_ID", "minio")
        os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "minio123")
        return open_store(Storage(url=url, endpoint=self.s3), Path("unused"))

    def run_store(self, name: str, uid: str) -> Store:
        """The store of a run whose manifest does not name one."""
        return self.store(f"{self.root}/{NAMESPACE}/{name}-{uid[:8]}")

    def records(self, name: str, uid: str) -> list[bytes]:
        """The record of every iteration; they are equal for runs with equal manifests."""
        store = self.run_store(name, uid)
        return [store.get(key) for key in store.list(keys.ITERATIONS)]

    def stop_service(self, service: str) -> str:
        """Stop MinIO, the API server of KFP, or MLflow; it comes back after a while.

        On the local cluster the process is killed and restarted, and its health endpoint is checked
        in between; elsewhere the pod is deleted. Returns a description of what was done.
        """
        if self.local:
            url = self.health_urls()[service]
            self.local_cluster("kill", service)
            assert not responds(url), f"{service} answers at {url} after it was killed"
            time.sleep(AWAY_S)
            self.local_cluster("restart", service)
            assert responds(url), f"{service} does not answer at {url} after its restart"
            return f"killed, and restarted after {AWAY_S:.0f} s"
        running = ["pods", "-l", PODS[service], "--field-selector=status.phase=Running"]
        if not self.get(*running)["items"]:
            return "skipped: it is not a pod of this namespace"
        return self.kubectl("delete", *running, "--grace-period=0", "--force")

    def health_urls(self) -> dict[str, str]:
        """Health endpoints of the services beside AgentRL, by name."""
        return {
            "minio": f"{self.s3}/minio/health/live",
            "kfp-apiserver": f"{self.kfp}/apis/v2beta1/healthz",
            "mlflow": f"{self.mlflow}/health",
        }

    def local_cluster(self, *words: str) -> None:
        """Run a command of the local cluster."""
        done = subprocess.run(
            [sys.executable, CLUSTER, "local", *words],
            capture_output=True,
            text=True,
            timeout=960,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def pods(self, **labels: str) -> Iterator[dict[str, Any]]:
        """Pods with these labels that have not ended."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        for pod in self.get("pods", "-l", selector)["items"]:
            if pod["status"]["phase"] in ("Pending", "Running"):
                yield pod


def created(run: dict[str, Any]) -> str:
    """Sort key: the creation time in ISO format."""
    moment: str = run["created_at"]
    return moment


def responds(url: str) -> bool:
    """Whether an HTTP server answers with success; False if the connection is refused."""
    try:
        return httpx.get(url, timeout=60).is_success
    except httpx.ConnectError as error:
        if "refused" not in str(error):
            raise
        return False
