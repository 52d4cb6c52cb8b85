"""Who reaches whom under the chart's NetworkPolicies, asked of a real kernel.

On the local cluster hack/cluster/network/firewall.py enforces them, in every test of this folder;
on another cluster its network has to.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from installed import NAMESPACE, ROOT, Installed, manifest

pytestmark = pytest.mark.e2e

Address = tuple[str, int]

PROBE = """
import json, socket, sys
def reached(address):
    try:
        socket.create_connection(address, 2).close()
    except OSError:
        return False
    return True
print(json.dumps([reached(tuple(one)) for one in json.loads(sys.argv[1])]))
"""
LISTEN = """
import socket, sys, time
held = [socket.create_server(("0.0.0.0", int(port)), backlog=100) for port in sys.argv[2:]]
time.sleep(float(sys.argv[1]))
"""
OTHER = 9999
"""A port at which nobody should be called. Somebody listens there."""
LISTENING_S = "3600"
SETTLED_S = 120.0
"""Seconds in which a network has taken note of new pods and policies."""


@dataclass(frozen=True)
class Place:
    """A pod that calls others, or is called."""

    installed: Installed
    name: str
    namespace: str = NAMESPACE
    container: tuple[str, ...] = ()

    def reaches(self, targets: dict[str, Address]) -> dict[str, bool]:
        """Which of them it can connect to."""
        asked = json.dumps(list(targets.values()))
        where = ("-n", self.namespace, "exec", self.name, *self.container)
        told = self.installed.kubectl(*where, "--", "python3", "-c", PROBE, asked)
        return dict(zip(targets, json.loads(told), strict=True))

    def comes_to_reach(self, targets: dict[str, Address], wanted: set[str]) -> None:
        """Once the network has taken note, just those that are wanted."""
        found: dict[str, bool] = {}

        def as_wanted() -> bool | None:
            found.update(self.reaches(targets))
            return {name for name, reached in found.items() if reached} == wanted or None

        what = f"{self.name} reaches {sorted(wanted)} of {sorted(targets)}"
        try:
            self.installed.until(what, as_wanted, SETTLED_S)
        except AssertionError:
            assert {name for name, reached in found.items() if reached} == wanted, self.name
            raise

    def address(self) -> str:
        told = self.installed.kubectl("-n", self.namespace, "get", "pod", self.name, "-o", "json")
        where: str = json.loads(told)["status"]["podIP"]
        return where

    def listen(self) -> subprocess.Popen[bytes]:
        """At `OTHER`, for a while."""
        command = ["kubectl", "-n", self.namespace, "exec", self.name, *self.container, "--"]
        return subprocess.Popen(
            [*command, "python3", "-c", LISTEN, LISTENING_S, str(OTHER)],
            env={**os.environ, "KUBECONFIG": self.installed.kubeconfig},
        )


def listener(installed: Installed, name: str, namespace: str = NAMESPACE, **labels: str) -> Place:
    """A pod of somebody else's, which listens at `OTHER` and where MinIO would."""
    operator = installed.get("deployments", "agentrl")["spec"]["template"]["spec"]["containers"][0]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "listener",
                    "image": operator["image"],
                    "imagePullPolicy": operator["imagePullPolicy"],
                    "command": ["python3", "-c", LISTEN, "3600", str(OTHER), "9000"],
                    "securityContext": operator["securityContext"] | {"runAsUser": 65532},
                }
            ],
        },
    }
    installed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(made))
    ready = ("--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    installed.kubectl("-n", namespace, "wait", *ready)
    return Place(installed, name, namespace)


@pytest.fixture(scope="module")
def neighbour(installed: Installed) -> Iterator[Place]:
    """Somebody else's pod, in the namespace of the runs."""
    yield listener(installed, "network-neighbour", app="network-neighbour")
    installed.kubectl("delete", "pod", "network-neighbour", "--force")


@pytest.fixture(scope="module")
def stranger(installed: Installed) -> Iterator[Place]:
    """Somebody else's pod, elsewhere."""
    yield listener(installed, "network-stranger", "default")
    installed.kubectl("-n", "default", "delete", "pod", "network-stranger", "--force")


def network_policy(**spec: Any) -> str:
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return json.dumps({**kind, "metadata": {"name": "network-test"}, "spec": spec})


@pytest.fixture(scope="module", autouse=True)
def enforced(installed: Installed, neighbour: Place, stranger: Place) -> None:
    """Policies are enforced at all: always so on our own cluster."""
    target = {"stranger": (stranger.address(), OTHER)}
    neighbour.comes_to_reach(target, {"stranger"})
    alone = {"matchLabels": {"app": "network-neighbour"}}
    installed.kubectl(
        "apply",
        "-f",
        "-",
        stdin=network_policy(podSelector=alone, policyTypes=["Egress"], egress=[]),
    )
    try:
        neighbour.comes_to_reach(target, set())
    except AssertionError:
        if installed.own:
            raise
        pytest.skip("this cluster's network enforces no NetworkPolicies")
    finally:
        installed.kubectl("delete", "networkpolicy", "network-test")
    neighbour.comes_to_reach(target, {"stranger"})


@dataclass(frozen=True)
class Pods:
    """The pods of a run at work, and the operator's."""

    operator: Place
    environment: Place
    stage: Place


@pytest.fixture(scope="module")
def at_work(installed: Installed) -> Iterator[Pods]:
    horizon = {"phases": [{"maxTurns": 3, "iterations": 500}], "alarms": []}
    installed.apply(manifest("walled", horizon=horizon, evaluation={"tasks": 20, "maxTurns": 3}))
    installed.until_iteration("walled", 1, 1200)
    run = {"agentrl.dev/run": "walled"}
    (environment,) = (
        pod
        for pod in installed.pods(**run)
        if "agentrl.dev/environment" in pod["metadata"]["labels"]
    )
    (stage,) = installed.pods(**run, **{"agentrl.dev/stage": "train"})
    (operator,) = installed.pods(**{"app.kubernetes.io/component": "operator"})
    found = Pods(
        operator=Place(installed, operator["metadata"]["name"]),
        environment=Place(installed, environment["metadata"]["name"]),
        stage=Place(installed, stage["metadata"]["name"], container=("-c", "main")),
    )
    listening = [found.operator.listen(), found.environment.listen()]
    for place in (found.operator, found.environment):  # only a policy keeps others off that port
        place.comes_to_reach({"itself": (place.address(), OTHER)}, {"itself"})
    yield found
    for process in listening:
        process.kill()
        process.wait()
    installed.kubectl("delete", "agentrlrun", "walled", "--timeout=600s")


def service(installed: Installed, name: str, port: int, namespace: str = NAMESPACE) -> Address:
    """By its address: who may call nobody cannot ask for a name either."""
    told = installed.kubectl("-n", namespace, "get", "service", name, "-o", "json")
    return json.loads(told)["spec"]["clusterIP"], port


def beside(installed: Installed) -> dict[str, Address]:
    """What a run needs, and what a cluster has."""
    return {
        "kfp": service(installed, "ml-pipeline", 8888),
        "store": service(installed, "minio-service", 9000),
        "api": service(installed, "kubernetes", 443, "default"),
        "dns": service(installed, "kube-dns", 53, "kube-system"),
    }


def ours(pods: Pods) -> dict[str, Address]:
    operator, environment = pods.operator.address(), pods.environment.address()
    return {
        "metrics": (operator, 8080),
        "operator's other port": (operator, OTHER),
        "environment": (environment, 8080),
        "environment's other port": (environment, OTHER),
    }


def test_a_run_succeeds_with_all_of_them_in_force(
    installed: Installed, calm: tuple[str, str]
) -> None:
    names = {one["metadata"]["name"] for one in installed.get("networkpolicies")["items"]}
    assert names >= {"agentrl", "agentrl-environments"}
    assert installed.status(calm[0])["state"] == "Succeeded"


def test_the_operator_calls_what_it_needs(
    installed: Installed, at_work: Pods, neighbour: Place, stranger: Place
) -> None:
    targets = beside(installed) | {
        "neighbour": (neighbour.address(), OTHER),
        "stranger": (stranger.address(), OTHER),
        "environment": (at_work.environment.address(), 8080),
    }
    # a policy names KFP's namespace, not its pods
    at_work.operator.comes_to_reach(targets, {"kfp", "store", "api", "dns", "neighbour"})


def test_an_environment_server_calls_nobody(
    installed: Installed, at_work: Pods, neighbour: Place, stranger: Place
) -> None:
    targets = beside(installed) | {
        "neighbour": (neighbour.address(), OTHER),
        "stranger": (stranger.address(), OTHER),
        "metrics": (at_work.operator.address(), 8080),
    }
    at_work.environment.comes_to_reach(targets, set())


def test_a_stage_calls_environments_and_whatever_it_needs(
    installed: Installed, at_work: Pods
) -> None:
    needed = beside(installed)
    targets = needed | ours(at_work)
    at_work.stage.comes_to_reach(targets, {*needed, "environment", "metrics"})


def test_others_call_no_environment_and_of_the_operator_its_metrics(
    at_work: Pods, neighbour: Place, stranger: Place
) -> None:
    for other in (neighbour, stranger):
        other.comes_to_reach(ours(at_work), {"metrics"})


def test_the_try_out_store_answers_the_namespace_of_the_runs(
    installed: Installed, helm: str, at_work: Pods, neighbour: Place, stranger: Place
) -> None:
    """The chart's own policy, about a pod that stands in for its MinIO."""
    rendered = subprocess.run(
        [helm, "template", "agentrl", ROOT / "helm/agentrl", "-n", NAMESPACE,
         "--set", "minio.enabled=true", "--kube-version", "1.36.0",
         "--show-only", "templates/networkpolicy.yaml"],
        capture_output=True, text=True, timeout=300, check=True,
    ).stdout  # fmt: skip
    (policy,) = (
        one
        for one in yaml.safe_load_all(rendered)
        if one and one["metadata"]["name"] == "agentrl-minio"
    )
    store = listener(installed, "network-store", **policy["spec"]["podSelector"]["matchLabels"])
    installed.kubectl("apply", "-f", "-", stdin=network_policy(**policy["spec"]))
    try:
        target = {"store": (store.address(), 9000)}
        stranger.comes_to_reach(target, set())
        at_work.environment.comes_to_reach(target, set())
        for one in (neighbour, at_work.stage, at_work.operator):
            one.comes_to_reach(target, {"store"})
    finally:
        installed.kubectl("delete", "networkpolicy/network-test", "pod/network-store", "--force")
