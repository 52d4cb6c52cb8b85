"""Joining a Ray cluster that has no node on the driver's machine.

Two addresses of the loopback network stand for two machines.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from free_ports import free_ports, silent_port
from ray_bench import reserved
from ray_nodes import started

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.cluster import connect, own_cluster
from agentrl_components.ray_workers.nodes.embedded import HEAD_WAIT
from agentrl_components.ray_workers.resources import SharedGpu, reservations
from agentrl_components.spec import Compute

HEAD = "127.0.0.2"
TOKEN = "0123456789abcdef0123456789abcdef"
PLACED = """
import os, signal, ray
from ray_bench import reserved
from agentrl_components.ray_workers.cluster import connect
leave = connect(os.environ["ADDRESS"], reserved(2))
node = ray.get_runtime_context().get_node_id()

class Where:
    def node(self):
        return ray.get_runtime_context().get_node_id()

actor = ray.remote(Where).options(**reserved(2).trainer.options()).remote()
print(len([one for one in ray.nodes() if one["Alive"]]), ray.get(actor.node.remote()) == node)
"""
EMBEDDED = """
import psutil
from ray_bench import reserved
from agentrl_components.ray_workers.cluster import connect
from agentrl_pipelines.cli.errors import exit_on_error
try:
    with exit_on_error():
        connect("embedded", reserved())
finally:
    print(len(psutil.Process().children()))
"""
REACHED = """
import os, subprocess, sys, psutil
from ray_bench import reserved
from agentrl_components.ray_workers.cluster import connect
leave = connect("embedded", reserved())
import ray
own = psutil.Process()
pids = {own.pid, *(process.pid for process in own.children(recursive=True))}
listening = [
    one.laddr.ip for one in psutil.net_connections("tcp")
    if one.pid in pids and one.status == psutil.CONN_LISTEN
]
print(sorted({address.removeprefix("::ffff:") for address in listening}), len(listening) > 4)
ask = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1]).get_all_node_info()"
stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
command = [sys.executable, "-c", ask, ray.get_runtime_context().gcs_address]
asked = subprocess.run(command, env=stranger, capture_output=True, text=True)
print(asked.returncode, "InvalidAuthToken" in asked.stderr)
leave()
"""
END = {"left": "leave()", "killed": "os.kill(os.getpid(), signal.SIGKILL)"}

pytest.importorskip("ray")
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """The address of a cluster with one node that asks for a token."""
    (port,) = free_ports(1)
    flags = ("--head", f"--port={port}", "--num-cpus=3", "--include-dashboard=false")
    env = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with started(HEAD, *flags, env=env):
        yield f"{HEAD}:{port}"


@pytest.fixture
def long_folder(tmp_path):
    """A folder for temporary files whose path is too long for Ray's sockets."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    return {"TMPDIR": str(folder)}


def driven(address, end, token=TOKEN, **env):
    """The output of a driver on another machine, which ends in this way."""
    env |= {"ADDRESS": address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-c", f"{PLACED}\n{END[end]}"],
        env=os.environ | env | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def without_ray():
    """The environment of a process that was told nothing of Ray."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


@slow
def test_a_driver_joins_with_a_node_without_resources_and_leaves_nothing(cluster, long_folder):
    joined = driven(cluster, "left", **long_folder)
    assert joined.stdout == "2 False\n", joined.stderr


@slow
def test_a_driver_that_is_killed_takes_its_node_along(cluster):
    assert driven(cluster, "killed").returncode == -signal.SIGKILL
    assert driven(cluster, "left").stdout.endswith(" False\n")


@slow
def test_another_token_is_refused_by_the_field(cluster):
    refused = driven(cluster, "left", token="f" * 32, **{HEAD_WAIT: "5"}).stderr
    assert "spec.compute.ray" in refused
    assert "its token in RAY_AUTH_TOKEN" in refused


def test_an_address_that_nobody_answers_is_named():
    told = r"compute\.ray: nothing answers at 127\.0\.0\.1:\d+ "
    with silent_port() as port, pytest.raises(RunError, match=told):
        connect(f"127.0.0.1:{port}", reserved())


def test_a_grpc_server_that_is_not_a_head_is_refused_by_the_field():
    """As Ray Client's."""
    import grpc

    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    told = rf"compute\.ray: what answers at 127\.0\.0\.1:{port} is not the head"
    try:
        with pytest.raises(RunError, match=told):
            connect(f"127.0.0.1:{port}", reserved())
    finally:
        server.stop(None)


def test_an_embedded_ray_listens_on_loopback_alone_and_asks_for_a_token(long_folder):
    paths = os.pathsep.join(path for path in sys.path if path)
    started = subprocess.run(
        [sys.executable, "-c", REACHED],
        env=without_ray() | long_folder | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert started.stdout == "['127.0.0.1'] True\n1 True\n", started.stderr


def test_an_embedded_ray_that_does_not_come_up_is_told_by_the_field():
    command = [sys.executable, "-c", EMBEDDED]
    paths = os.pathsep.join(path for path in sys.path if path)
    # Ray is given no time, as on a machine that is too slow for the time that it is given.
    env = os.environ | {"RAY_gcs_server_port_wait_time_s": "0", "PYTHONPATH": paths}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "error: spec.compute.ray: embedded: Ray did not start on this machine" in ended.stderr
    assert "RAY_raylet_start_wait_time_s" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == "0\n"  # processes that are left


def test_a_cluster_of_its_own_exists_on_kubernetes_only(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(RunError, match=r"spec\.compute\.ray: is cluster, but RAY_ADDRESS"):
        connect("cluster", reserved())
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert own_cluster() == "head:6379"


def test_in_its_own_cluster_each_actor_has_a_node_of_its_group():
    one = reservations(
        Compute(ray="cluster", trainers={"count": 2, "cpu": "1500m"}, samplers={"count": 3})
    )
    wanted = {"num_cpus": 2.0, "num_gpus": 0, "resources": {"trainers": 1}}
    assert one.trainer.options() == wanted
    assert one.missing({"trainers": 1.0, "samplers": 3.0}) == "1 of 2 trainers, 3 of 3 samplers"
    assert one.missing({"trainers": 2.0, "samplers": 3.0}) == ""


def test_samplers_that_share_gpus_reserve_something_only_where_there_are_no_trainers():
    shared = reservations(
        Compute(
            ray="head:6379",
            share_gpus=True,
            trainers={"count": 2, "gpus": 1, "cpu": "4", "memory": "60Gi"},
            samplers={"count": 2, "gpus": 1},
        )
    )
    trainer = {"num_cpus": 4.0, "num_gpus": 1, "memory": 60 << 30}
    assert (shared.gpus, shared.cpus) == (2, 8.0)
    assert [one.options() for one in shared.places(trains=True)] == [trainer, trainer]
    assert [one.options() for one in shared.places(trains=False)] == [trainer, trainer]
    assert SharedGpu(rank=1, node="ab" * 28, number="3").options()["num_gpus"] == 0
