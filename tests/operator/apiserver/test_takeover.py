"""Operator processes on a real kube-apiserver: one is the leader, another takes over."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress

import aiohttp
import pytest
import yaml
from apiserver import PATIENCE_S, Refused
from free_ports import free_ports

from agentrl_operator.clients.kubernetes import KubernetesApi
from agentrl_operator.leader_election.election import LeaseName
from agentrl_operator.leader_election.lease_client import LeaseClient

SPACE = "standby"
LEASE = "agentrl"
PATH = f"apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/{LEASE}"
DURATION_S = 20
"""Longer than a busy machine stalls, so that the leader keeps its Lease."""
RULES = [
    {"apiGroups": ["agentrl.dev"], "resources": ["agentrlruns"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE],
        "verbs": ["get", "update"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
]
"""RBAC rules for operators without runs, and the chart's rules for their Lease."""


@pytest.fixture(scope="module")
def server(api_server):
    """An API server with a namespace for the operator."""
    api_server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    own = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "operator", "namespace": SPACE},
    }
    api_server.create(own | {"kind": "Role", "rules": RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"}
    subjects = [{"kind": "User", "name": "operator"}]
    api_server.create(own | {"kind": "RoleBinding", "roleRef": role, "subjects": subjects})
    return api_server


class Operator:
    """An operator process, started as in its image."""

    def __init__(self, server, folder, name):
        platform = folder / "platform.yaml"
        platform.write_text(yaml.safe_dump({"kfp": {"namespace": SPACE}}))
        (self.port,) = free_ports(1)
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "agentrl_operator", f"--platform={platform}"),
                    *(f"--namespace={SPACE}", f"--lease={SPACE}/{LEASE}"),
                    *(f"--lease-seconds={DURATION_S}", "--log-format=plain"),
                    *("--metrics-host=127.0.0.1", f"--metrics-port={self.port}"),
                ],
                env=os.environ | {"KUBECONFIG": str(server.operator_kubeconfig)},
                stdout=log,
                stderr=log,
            )

    async def shows(self, path, text):
        """Wait until the readiness page matches. Returns the time when it did."""
        deadline = time.monotonic() + PATIENCE_S
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"http://127.0.0.1:{self.port}{path}") as response:
                        if text in await response.text() and response.status == 200:
                            return time.monotonic()
                except aiohttp.ClientError:
                    pass
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()
                await asyncio.sleep(0.02)

    async def leads(self):
        return await self.shows("/metrics", "agentrl_operator_leader 1.0")

    async def ends(self):
        return await asyncio.to_thread(self.process.wait, PATIENCE_S)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


async def test_another_operator_takes_over_when_the_leader_stops_or_freezes(server, tmp_path):
    with ExitStack() as stack:

        def start(name):
            one = Operator(server, tmp_path, name)
            stack.callback(one.stop)
            return one

        first = start("first")
        await first.leads()
        second = start("second")
        await second.shows("/readyz", '"leader": "')
        await first.shows("/readyz", '"ready": true')

        first.process.send_signal(signal.SIGTERM)
        await second.leads()
        assert await first.ends() == 0
        assert "released lease standby/agentrl" in first.log.read_text()

        third = start("third")
        await third.shows("/readyz", '"leader": "')
        second.process.send_signal(signal.SIGSTOP)
        frozen_at = time.monotonic()
        waited_s = await third.leads() - frozen_at
        assert waited_s > DURATION_S * 0.3  # what the renew deadline leaves of it
        second.process.send_signal(signal.SIGCONT)
        assert await second.ends() == 1
        assert "lost lease standby/agentrl" in second.log.read_text()

        lease = await asyncio.to_thread(server.ask, "GET", PATH)
        assert lease["spec"]["leaseTransitions"] == 3
        managed_by = {"app.kubernetes.io/managed-by": "agentrl-operator"}
        assert lease["metadata"]["labels"] == managed_by
        third.process.send_signal(signal.SIGTERM)
        assert await third.ends() == 0
        lease = await asyncio.to_thread(server.ask, "GET", PATH)
        assert lease["spec"].get("holderIdentity", "") == ""


async def test_an_operator_on_standby_stops_on_a_signal(server, tmp_path):
    held = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": SPACE},
        "spec": {"holderIdentity": "by-hand", "leaseDurationSeconds": 600},
    }
    with ExitStack() as stack:
        with suppress(Refused):  # there is none
            server.ask("DELETE", PATH)
        stack.callback(server.ask, "DELETE", PATH)
        server.ask("POST", PATH.rpartition("/")[0], held)
        one = Operator(server, tmp_path, "one")
        stack.callback(one.stop)
        await one.shows("/readyz", '"leader": "by-hand"')
        one.process.send_signal(signal.SIGTERM)
        assert await one.ends() == 0
        lease = await asyncio.to_thread(server.ask, "GET", PATH)
        assert lease["spec"]["holderIdentity"] == "by-hand"


async def test_a_lease_is_updated_only_at_the_version_that_was_observed(server, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    cluster = KubernetesApi()
    leases = LeaseClient(cluster.request)
    name = LeaseName(namespace=SPACE, name="other")
    assert await leases.get(name) is None
    first = await leases.update(name, "a", 15, None)
    assert (first.holder, first.duration_s, first.transitions) == ("a", 15, 1)
    assert await leases.update(name, "b", 15, None) is None
    second = await leases.update(name, "a", 15, first)
    assert (second.transitions, second.acquired) == (1, first.acquired)
    assert await leases.update(name, "b", 15, first) is None
    assert await leases.get(name) == second
    third = await leases.update(name, "", 15, second)
    assert (third.holder, third.transitions) == ("", 1)
    fourth = await leases.update(name, "b", 15, third)
    assert (fourth.holder, fourth.transitions) == ("b", 2)
    await asyncio.to_thread(server.ask, "DELETE", PATH.replace(LEASE, "other"))
    again = await leases.update(name, "b", 15, fourth)  # creates it again
    assert (again.holder, again.transitions) == ("b", 2)
    await cluster.close()
