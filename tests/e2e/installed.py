"""AgentRL as it is installed on a cluster, seen from outside: what a person with kubectl, a browser
and an S3 client sees."""

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
NAMESPACE = "kubeflow"
POLL_S = 0.5
RUNS = ("calm", "storm", "pause", "gone", "swept", "many-", "bad", "walled")
"""How the names of these tests' runs begin."""
AWAY_S = 4.0
"""Seconds that a process of our own cluster stays away."""
PODS = {
    "minio": "app in (minio, seaweedfs)",
    "kfp-apiserver": "app=ml-pipeline",
    "mlflow": "app.kubernetes.io/instance=agentrl,app.kubernetes.io/component=mlflow",
}
"""The services beside AgentRL as pods, by the names of our own cluster's processes."""


@dataclass(frozen=True)
class Installed:
    """One installation, and the services beside it."""

    kubeconfig: str
    own: bool = True
    """On the local cluster, where those services are processes of this machine; elsewhere they are
    pods."""
    kfp: str = "http://10.244.0.1:8888"
    mlflow: str = "http://10.244.0.1:5000"
    s3: str = "http://10.244.0.1:9000"
    root: str = "s3://agentrl"
    """Where runs are kept that do not say so themselves."""

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints. With `check`, an `AssertionError` where it fails."""
        done = subprocess.run(
            ["kubectl", "-n", NAMESPACE, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=660,
            check=False,
            env={**os.environ, "KUBECONFIG": self.kubeconfig},
        )
        if check:
            assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout + done.stderr

    def get(self, kind: str, *words: str) -> Any:
        """Objects, as data."""
        return json.loads(self.kubectl("get", kind, *words, "-o", "json"))

    def apply(self, manifest: dict[str, Any]) -> str:
        """Make the run; returns its uid."""
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(manifest))
        uid: str = self.get("agentrlruns", manifest["metadata"]["name"])["metadata"]["uid"]
        return uid

    def suspend(self, name: str, asked: bool) -> None:
        """Suspend a run, or let it go on."""
        change = json.dumps({"spec": {"suspend": asked}})
        self.kubectl("patch", "arl", name, "--type=merge", f"-p={change}")

    def status(self, name: str) -> dict[str, Any]:
        """The run's status; empty before there is one."""
        told: dict[str, Any] = self.get("agentrlruns", name).get("status", {})
        return told

    def until(
        self, what: str, ready: Callable[[], T | None], within_s: float, poll_s: float = POLL_S
    ) -> T:
        """What `ready` answers, once it does. `what` is told when it does not in time."""
        deadline = time.monotonic() + within_s
        while True:
            answer = ready()
            if answer:
                return answer
            assert time.monotonic() < deadline, f"not in {within_s:.0f} s: {what}\n{self.story()}"
            time.sleep(poll_s)

    def until_state(self, name: str, state: str, within_s: float) -> dict[str, Any]:
        """The status once the run is in `state`. Fails at once if the run ends in another one."""

        def reached() -> dict[str, Any] | None:
            status = self.status(name)
            now = status.get("state")
            ended = now in ("Succeeded", "Failed") and now != state
            assert not ended, f"{name} is {now}: {status.get('message')}\n{self.story()}"
            return status if now == state else None

        return self.until(f"{name} is {state}", reached, within_s)

    def until_iteration(self, name: str, iteration: int, within_s: float) -> None:
        """Wait until so many iterations are done."""
        self.until(
            f"{name} has done {iteration} iterations",
            lambda: self.status(name).get("iteration", 0) >= iteration or None,
            within_s,
        )

    def story(self) -> str:
        """What a person would look at when something hangs."""
        runs = self.kubectl("get", "agentrlruns", "-o", "wide", check=False)
        pods = self.kubectl("get", "pods", "--sort-by=.metadata.creationTimestamp", check=False)
        log = self.kubectl("logs", "deploy/agentrl", "--tail=30", check=False)
        return f"{runs}\n{pods}\n{log}"

    def kfp_run(self, run_id: str) -> dict[str, Any]:
        """A run, as Kubeflow's API has it."""
        told: dict[str, Any] = (
            httpx.get(f"{self.kfp}/apis/v2beta1/runs/{run_id}").raise_for_status().json()
        )
        return told

    def kfp_runs(self, uid: str) -> list[dict[str, Any]]:
        """All runs of an AgentRLRun's experiment, oldest first."""
        answer = httpx.get(f"{self.kfp}/apis/v2beta1/runs", params={"page_size": 200})
        return [
            run
            for run in sorted(answer.raise_for_status().json().get("runs", []), key=created)
            if uid[:8] in json.dumps(run.get("runtime_config", {}))
        ]

    def store(self, url: str) -> Store:
        """The store of a run."""
        os.environ.setdefault("AWS_ACCESS_KEY_ID", "minio")
        os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "minio123")
        return open_store(Storage(url=url, endpoint=self.s3), Path("unused"))

    def place(self, name: str, uid: str) -> Store:
        """Where a run that does not say so itself is kept."""
        return self.store(f"{self.root}/{NAMESPACE}/{name}-{uid[:8]}")

    def records(self, name: str, uid: str) -> list[bytes]:
        """Every iteration's record; the same for every way in which the same run comes about."""
        store = self.place(name, uid)
        return [store.get(key) for key in store.list(keys.ITERATIONS)]

    def lose(self, service: str) -> str:
        """A service beside AgentRL dies and comes back after a while: MinIO, KFP's API server,
        MLflow. Says what was done."""
        if self.own:
            self.cluster("kill", service)
            time.sleep(AWAY_S)
            self.cluster("restart", service)
            return "killed, away for a while, started again"
        chosen = ["pods", "-l", PODS[service], "--field-selector=status.phase=Running"]
        if not self.get(*chosen)["items"]:
            return "left alone: it is not a pod of this namespace"
        return self.kubectl("delete", *chosen, "--grace-period=0", "--force")

    def cluster(self, *words: str) -> None:
        """Something only the machine under our own cluster can do."""
        done = subprocess.run(
            [sys.executable, CLUSTER, "local", *words],
            capture_output=True,
            text=True,
            timeout=960,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def pods(self, **labels: str) -> Iterator[dict[str, Any]]:
        """Pods that have not ended."""
        chosen = ",".join(f"{key}={value}" for key, value in labels.items())
        for pod in self.get("pods", "-l", chosen)["items"]:
            if pod["status"]["phase"] in ("Pending", "Running"):
                yield pod


def created(run: dict[str, Any]) -> str:
    moment: str = run["created_at"]
    return moment


def manifest(name: str, **changes: Any) -> dict[str, Any]:
    """`examples/babyai.yaml`, shortened so that two cores are through with it in minutes. Lists and
    scalars in `changes` replace, mappings are laid over."""
    read: dict[str, Any] = yaml.safe_load((ROOT / "examples/babyai.yaml").read_text())
    read["metadata"] = {"name": name}
    spec = read["spec"]
    short: dict[str, Any] = {
        "horizon": {
            "phases": [{"maxTurns": 3, "iterations": 6}, {"maxTurns": 5, "iterations": 10}],
            "alarms": [],
        },
        "evaluation": {"tasks": 200, "maxTurns": 8},
        "compute": {"workers": 1, "cpu": "200m", "memory": "1500Mi"},
        "rollout": {"maxStaleness": 1},
        "algorithm": {"importanceSampling": {}},
        "update": {"checkpointEvery": 5},
    }
    for part, change in [*short.items(), *changes.items()]:
        known = spec.get(part)
        both = isinstance(known, dict) and isinstance(change, dict)
        spec[part] = {**known, **change} if both else change
    return read
