"""Which pods reach which under the chart's NetworkPolicies, on a real kernel.

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
from installed import NAMESPACE, ROOT, Installed

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
TRUSTED = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"
OTHER = 9999
"""A port on which pods listen and which no policy opens."""
LISTENING_S = "3600"
SETTLED_S = 120.0
"""Time limit for the network to apply new pods and policies, in seconds."""


@dataclass(frozen=True)
class Peer:
    """A pod that connects to others, or that others connect to."""

    installed: Installed
    name: str
    namespace: str = NAMESPACE
    container: tuple[str, ...] = ()

    def reaches(self, targets: dict[str, Address]) -> dict[str, bool]:
        """Whether the pod can connect to each target."""
        addresses = json.dumps(list(targets.values()))
        where = ("-n", self.namespace, "exec", self.name, *self.container)
        output = self.installed.kubectl(*where, "--", "python3", "-c", PROBE, addresses)
        return dict(zip(targets, json.loads(output), strict=True))

    def assert_reaches_only(self, targets: dict[str, Address], wanted: set[str]) -> None:
        """Wait until the pod reaches exactly the wanted targets; fail after SETTLED_S."""
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

    def trusted(self) -> int:
        """The number of certificate authorities that a Python program in the pod trusts."""
        where = ("-n", self.namespace, "exec", self.name, *self.container)
        return int(self.installed.kubectl(*where, "--", "python3", "-c", TRUSTED))

    def address(self) -> str:
        pod = self.installed.kubectl("-n", self.namespace, "get", "pod", self.name, "-o", "json")
        address: str = json.loads(pod)["status"]["podIP"]
        return address

    def listen(self) -> subprocess.Popen[bytes]:
        """Listen on the port `OTHER` of the pod."""
        command = ["kubectl", "-n", self.namespace, "exec", self.name, *self.container, "--"]
        return subprocess.Popen(
            [*command, "python3", "-c", LISTEN, LISTENING_S, str(OTHER)],
            env={**os.environ, "KUBECONFIG": self.installed.kubeconfig},
        )


def listener(installed: Installed, name: str, namespace: str = NAMESPACE, **labels: str) -> Peer:
    """Create a pod outside AgentRL, which listens on `OTHER` and on MinIO's port."""
    operator = installed.get("deployments", "agentrl")["spec"]["template"]["spec"]["containers"][0]
    manifest = {
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
    installed.kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(manifest))
    ready = ("--for=condition=Ready", f"pod/{name}", "--timeout=300s")
    installed.kubectl("-n", namespace, "wait", *ready)
    return Peer(installed, name, namespace)


@pytest.fixture(scope="module")
def neighbour(installed: Installed) -> Iterator[Peer]:
    """A pod outside AgentRL, in the namespace of the runs."""
    yield listener(installed, "network-neighbour", app="network-neighbour")
    installed.kubectl("delete", "pod", "network-neighbour", "--force")


@pytest.fixture(scope="module")
def stranger(installed: Installed) -> Iterator[Peer]:
    """A pod outside AgentRL, in another namespace."""
    yield listener(installed, "network-stranger", "default")
    installed.kubectl("-n", "default", "delete", "pod", "network-stranger", "--force")


def network_policy(**spec: Any) -> str:
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return json.dumps({**kind, "metadata": {"name": "network-test"}, "spec": spec})


@pytest.fixture(scope="module", autouse=True)
def enforced(installed: Installed, neighbour: Peer, stranger: Peer) -> None:
    """Skip if the cluster does not enforce NetworkPolicies; the local cluster must."""
    target = {"stranger": (stranger.address(), OTHER)}
    neighbour.assert_reaches_only(target, {"stranger"})
    alone = {"matchLabels": {"app": "network-neighbour"}}
    installed.kubectl(
        "apply",
        "-f",
        "-",
        stdin=network_policy(podSelector=alone, policyTypes=["Egress"], egress=[]),
    )
    try:
        neighbour.assert_reaches_only(target, set())
    except AssertionError:
        if installed.local:
            raise
        pytest.skip("the network of this cluster does not enforce NetworkPolicies")
    finally:
        installed.kubectl("delete", "networkpolicy", "network-test")
    neighbour.assert_reaches_only(target, {"stranger"})


@dataclass(frozen=True)
class Pods:
    """The pods of a working run, and the operator."""

    operator: Peer
    environment: Peer
    stage: Peer


@pytest.fixture(scope="module")
def at_work(installed: Installed, working: str) -> Iterator[Pods]:
    run = {"agentrl.dev/run": working}
    (environment,) = (
        pod
        for pod in installed.pods(**run)
        if "agentrl.dev/environment" in pod["metadata"]["labels"]
    )
    (stage,) = installed.pods(**run, **{"agentrl.dev/stage": "train"})
    (operator,) = installed.pods(**{"app.kubernetes.io/component": "operator"})
    found = Pods(
        operator=Peer(installed, operator["metadata"]["name"]),
        environment=Peer(installed, environment["metadata"]["name"]),
        stage=Peer(installed, stage["metadata"]["name"], container=("-c", "main")),
    )
    listening = [found.operator.listen(), found.environment.listen()]
    for place in (found.operator, found.environment):  # only a policy can close that port to others
        place.assert_reaches_only({"itself": (place.address(), OTHER)}, {"itself"})
    yield found
    for process in listening:
        process.kill()
        process.wait()


def service(installed: Installed, name: str, port: int, namespace: str = NAMESPACE) -> Address:
    """Address of a Service; a pod without egress cannot resolve its name."""
    output = installed.kubectl("-n", namespace, "get", "service", name, "-o", "json")
    return json.loads(output)["spec"]["clusterIP"], port


def services(installed: Installed) -> dict[str, Address]:
    """Services that a run needs, and those of the cluster itself."""
    return {
        "kfp": service(installed, "ml-pipeline", 8888),
        "store": service(installed, "minio-service", 9000),
        "api": service(installed, "kubernetes", 443, "default"),
        "dns": service(installed, "kube-dns", 53, "kube-system"),
    }


def pod_ports(pods: Pods) -> dict[str, Address]:
    operator, environment = pods.operator.address(), pods.environment.address()
    return {
        "metrics": (operator, 8080),
        "operator's other port": (operator, OTHER),
        "environment": (environment, 8080),
        "environment's other port": (environment, OTHER),
    }


def test_operator_reaches_what_it_needs(
    installed: Installed, at_work: Pods, neighbour: Peer, stranger: Peer
) -> None:
    targets = services(installed) | {
        "neighbour": (neighbour.address(), OTHER),
        "stranger": (stranger.address(), OTHER),
        "environment": (at_work.environment.address(), 8080),
    }
    # the policy selects the namespace of KFP, not its pods
    needed = {"kfp", "store", "api", "dns", "environment"}
    at_work.operator.assert_reaches_only(targets, {*needed, "neighbour"})


def test_environment_server_reaches_nothing(
    installed: Installed, at_work: Pods, neighbour: Peer, stranger: Peer
) -> None:
    targets = services(installed) | {
        "neighbour": (neighbour.address(), OTHER),
        "stranger": (stranger.address(), OTHER),
        "metrics": (at_work.operator.address(), 8080),
    }
    at_work.environment.assert_reaches_only(targets, set())


def test_stage_reaches_environments_and_what_it_needs(installed: Installed, at_work: Pods) -> None:
    needed = services(installed)
    targets = needed | pod_ports(at_work)
    at_work.stage.assert_reaches_only(targets, {*needed, "environment", "metrics"})


def test_others_reach_no_environment_and_only_the_metrics_of_the_operator(
    at_work: Pods, neighbour: Peer, stranger: Peer
) -> None:
    for other in (neighbour, stranger):
        other.assert_reaches_only(pod_ports(at_work), {"metrics"})


def test_all_pods_trust_the_authorities_of_the_platform_alone(at_work: Pods) -> None:
    pods = (at_work.operator, at_work.stage, at_work.environment)
    assert [pod.trusted() for pod in pods] == [1, 1, 1]


def test_minio_of_the_chart_is_reached_from_the_namespace_of_the_runs(
    installed: Installed, helm: str, at_work: Pods, neighbour: Peer, stranger: Peer
) -> None:
    """Applies the policy of the chart to a pod with the labels of its MinIO."""
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
        stranger.assert_reaches_only(target, set())
        at_work.environment.assert_reaches_only(target, set())
        for one in (neighbour, at_work.stage, at_work.operator):
            one.assert_reaches_only(target, {"store"})
    finally:
        installed.kubectl("delete", "networkpolicy/network-test", "pod/network-store", "--force")
