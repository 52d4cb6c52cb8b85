"""Places that a placement group reserves for all actors of a run."""

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil
import pytest
from free_ports import free_ports
from learner_bench import spec
from ray_bench import connected, model_folder, reserved
from ray_nodes import below, started
from started import started as program

from agentrl_components.errors import Stopped
from agentrl_components.ray_workers.calls.results import checking
from agentrl_components.ray_workers.nodes.embedded import restrict_access
from agentrl_components.ray_workers.placement import AnyNode, ReservedPlaces, open_placement
from agentrl_components.ray_workers.trainers import RayTrainers

pytest.importorskip("ray")

SPEC = spec(model={"source": "tiny", "context": 64})
HEAD, NODES = "127.0.0.2", ("127.0.0.3", "127.0.0.4")
NODES_OF_ACTORS = """
import json, os, ray
from ray_bench import reserved
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.nodes.embedded import restrict_access
from agentrl_components.ray_workers.placement import open_placement
wanted = reserved(2, 2)
leave = connect(os.environ["ADDRESS"], wanted)
places = open_placement(os.environ["ADDRESS"], wanted, print, trains=True)

class Where:
    def node(self):
        return ray.get_runtime_context().get_node_id()

actors = [
    ray.remote(Where).options(**role.options(), **place)
    for role, place in (
        (wanted.trainer, places.trainer(0)), (wanted.sampler, places.sampler(0)),
        (wanted.trainer, places.trainer(1)), (wanted.sampler, places.sampler(1)),
    )
]
found = ray.get([actor.remote().node.remote() for actor in actors])
print(json.dumps(found))
places.close()
leave()
"""


WAITS_AFTER_A_LOSS = """
import json, os, ray
from ray_bench import reserved
from agentrl_components.ray_workers.cluster import connect
from agentrl_components.ray_workers.membership import wait_for_nodes
from agentrl_components.ray_workers.placement import ReservedPlaces

class Where:
    def node(self):
        return ray.util.get_node_ip_address()

def said(what):
    print(json.dumps(what), flush=True)

def node_of(options):
    actors.append(ray.remote(Where).options(**options).remote())
    return ray.get(actors[-1].node.remote())

def note(text):
    if not noted:
        noted.append(said(text))
        ray.kill(actors[1])

wanted, actors, noted = reserved(1, 1), [], []
leave = connect(os.environ["ADDRESS"], wanted)
places = ReservedPlaces(wanted, note, trains=False, noted_s=5.0)
sampler = wanted.sampler.options() | places.sampler(0)
said([node_of(sampler), node_of({"num_cpus": 2})])  # another job takes the other machine
input()
wait_for_nodes(wanted)
places.wait()
said(node_of(sampler))
places.close()
leave()
"""


@pytest.fixture(scope="module")
def ray():
    """A Ray with four CPUs: two trainers of half a CPU, and three samplers."""
    with connected(trainers=2, samplers=3) as ray:
        yield ray


def assert_free(ray, cpus):
    """So many CPUs are free, as soon as Ray has counted what was given back."""
    deadline = time.monotonic() + 30.0
    while (found := ray.available_resources().get("CPU", 0.0)) != cpus:
        assert time.monotonic() < deadline, f"{found} CPUs are free, and {cpus} should be"
        time.sleep(0.1)


def test_a_run_that_finds_no_room_holds_nothing_and_says_what_it_waits_for(ray):
    notes = []
    first = ReservedPlaces(reserved(2, 1), notes.append)
    assert_free(ray, 2)
    opened = []
    second = threading.Thread(
        target=lambda: opened.append(ReservedPlaces(reserved(2, 2), notes.append, noted_s=0.0))
    )
    second.start()
    second.join(6.0)
    assert second.is_alive()
    assert_free(ray, 2)
    assert set(notes) == {
        "waits for room on the Ray cluster of spec.compute.ray: there is none for 2 trainers "
        "(0.5 CPUs each) and 2 samplers (1 CPUs each); free machines, or parts of them: "
        "1 with 2 CPUs"
    }
    assert len(notes) > 1  # one at every look: twice 0 s is 0 s
    first.close()
    second.join(30.0)
    assert_free(ray, 1)
    opened[0].close()


def test_a_run_that_is_to_stop_waits_no_longer_for_room_and_gives_its_places_back(ray):
    """Regression: a signal and the deadline were looked at after there was room, days later."""
    polls = iter(range(2))

    def stop_later():
        if next(polls, None) is None:
            raise Stopped("terminated")

    other = ReservedPlaces(reserved(2, 1), print)
    with checking(stop_later), pytest.raises(Stopped, match="terminated"):
        ReservedPlaces(reserved(2, 2), print)
    other.close()
    assert_free(ray, 4)


def test_trainers_work_in_their_places_and_an_evaluation_reserves_none(ray, tmp_path):
    wanted = reserved(2, 1)
    places = ReservedPlaces(wanted, print)
    model = model_folder(SPEC, tmp_path)
    trainers = RayTrainers(SPEC, model, wanted, "cpu", placement=places).open()
    assert_free(ray, 2)  # actors take nothing beside their places
    trainers.close()
    places.close()
    only = ReservedPlaces(wanted, print, trains=False)
    assert_free(ray, 3)
    only.close()


def test_clusters_without_other_runs_need_no_placement_group():
    for address in ("embedded", "cluster"):
        places = open_placement(address, reserved(), print, trains=True)
        assert isinstance(places, AnyNode)
        assert places.trainer(0) == places.sampler(0) == {}


@contextmanager
def two_machines():
    """A Ray cluster: a head without CPUs, and two nodes with two each. Yields the environment of
    its drivers, and the processes of the nodes by address."""
    (port,) = free_ports(1)
    flags = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
    joined = (f"--address={HEAD}:{port}", "--num-cpus=2")
    restrict_access()
    paths = os.pathsep.join(path for path in sys.path if path)
    with (
        started(HEAD, *flags),
        started(NODES[0], *joined) as first,
        started(NODES[1], *joined) as second,
    ):
        env = os.environ | {"ADDRESS": f"{HEAD}:{port}", "PYTHONPATH": paths}
        yield env, dict(zip(NODES, (first, second), strict=True))


@pytest.mark.nightly
def test_places_on_a_lost_machine_wait_for_room_on_another_one():
    command = [sys.executable, "-c", WAITS_AFTER_A_LOSS]
    with (
        two_machines() as (env, nodes),
        program(command, env=env, stdin=subprocess.PIPE, stderr=None) as driver,
    ):
        lost, others = json.loads(driver.stdout.readline())
        assert {lost, others} == set(NODES)
        raylets = below(nodes[lost], "raylet")
        for raylet in raylets:
            raylet.kill()
        assert psutil.wait_procs(raylets, timeout=60)[1] == []
        said, _ = driver.communicate("\n", timeout=180)
    note, again = (json.loads(line) for line in said.splitlines() if line.startswith('"'))
    assert note == (
        "waits for room on the Ray cluster of spec.compute.ray: there is none for 1 samplers "
        "(1 CPUs each); free machines, or parts of them: none"
    )
    assert again == others


@pytest.mark.nightly
def test_trainers_share_a_machine_that_has_room_for_them():
    with two_machines() as (env, _):
        done = subprocess.run(
            [sys.executable, "-c", NODES_OF_ACTORS],
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    trainer, sampler, other_trainer, other_sampler = json.loads(done.stdout)
    assert trainer == other_trainer
    assert {sampler, other_sampler} != {trainer}
