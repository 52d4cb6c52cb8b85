"""When actors are started on a cluster that has lost a node, on a cluster in memory whose nodes are
sockets of this process."""

import socket
from contextlib import closing

import pytest
from free_ports import silent_port

from agentrl_components.errors import RunError, SpecError
from agentrl_components.ray_workers.membership import (
    NOTICED_S,
    REPLACED_S,
    WORKERS_S,
    Member,
    wait_for_nodes,
)
from agentrl_components.ray_workers.resources import reservations
from agentrl_components.spec import Compute

HOST = "127.0.0.1"
TWO = reservations(Compute(ray="head:6379", trainers={"count": 1}, samplers={"count": 1}))
"""Needs two CPUs."""


class MemoryCluster:
    """A cluster whose nodes and CPUs are those of the first state whose time has not passed."""

    def __init__(self, *states):
        self.states = states
        """(until, members, resources)."""
        self.seconds = 0.0

    def members(self):
        return self._state()[1]

    def resources(self):
        return self._state()[2]

    def now(self):
        return self.seconds

    def pause(self, seconds):
        self.seconds += seconds

    def _state(self):
        return next(state for state in self.states if self.seconds < state[0])


@pytest.fixture
def answering():
    """The port of a node that answers."""
    with closing(socket.create_server((HOST, 0))) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent():
    """A port at which nothing answers."""
    with silent_port() as port:
        yield port


def node(port, *, alive=True, lost_s=None, **resources):
    resources = resources or {"CPU": 2.0, "memory": 1e12}
    return Member(host=HOST, port=port, alive=alive, lost_s=lost_s, resources=resources)


EVER = float("inf")


def test_a_whole_cluster_is_not_waited_for(answering):
    cluster, notes = MemoryCluster((EVER, [node(answering)], {"CPU": 2.0})), []
    wait_for_nodes(TWO, cluster, note=notes.append)
    assert (cluster.seconds, notes) == (0, [])


def test_a_node_that_has_died_is_waited_for_until_ray_has_noticed(answering, silent):
    living = node(answering)
    cluster = MemoryCluster(
        (14, [living, node(silent)], {"CPU": 4.0}),
        (EVER, [living, node(silent, alive=False, lost_s=0.5)], {"CPU": 2.0}),
    )
    notes = []
    wait_for_nodes(TWO, cluster, note=notes.append)
    assert cluster.seconds == 14
    assert notes == [
        f"waiting for Ray to notice that {HOST}:{silent} does not answer (10 s so far; for 60 s at "
        "most, in case a firewall refuses this process alone)"
    ]


def test_a_node_that_never_answers_but_is_alive_delays_the_start_by_a_minute(answering, silent):
    cluster = MemoryCluster((EVER, [node(answering), node(silent)], {"CPU": 2.0}))
    wait_for_nodes(TWO, cluster)
    assert cluster.seconds == NOTICED_S


def test_a_node_that_replaces_a_lost_one_is_waited_for(answering, silent):
    lost = node(silent, alive=False, lost_s=3.0)
    cluster = MemoryCluster(
        (40, [node(answering), lost], {"CPU": 1.0}),
        (EVER, [node(answering), lost, node(answering)], {"CPU": 2.0}),
    )
    notes = []
    wait_for_nodes(TWO, cluster, note=notes.append)
    assert cluster.seconds == 40
    waited = [note.partition(":")[0] for note in notes]
    assert waited == [
        "waiting for a node in place of the lost one (10 s so far)",
        "waiting for a node in place of the lost one (20 s so far)",
    ]


def test_a_lost_node_that_is_not_replaced_is_an_error_that_names_the_field(answering, silent):
    lost = node(silent, alive=False, lost_s=3.0)
    cluster = MemoryCluster((EVER, [node(answering), lost], {"CPU": 1.0}))
    with pytest.raises(RunError, match=r"spec\.compute\.ray: .* lost a node.* Ray has 1"):
        wait_for_nodes(TWO, cluster)
    assert cluster.seconds == REPLACED_S + 1


@pytest.mark.parametrize("lost_s", [None, REPLACED_S + 1])
def test_a_cluster_that_is_too_small_and_lost_nothing_lately_is_refused_at_once(
    answering, silent, lost_s
):
    gone = node(silent, alive=False, lost_s=lost_s)
    cluster = MemoryCluster((EVER, [node(answering), gone], {"CPU": 1.0}))
    with pytest.raises(SpecError, match=r"spec\.compute\.trainers\.count: .* need 2 CPUs"):
        wait_for_nodes(TWO, cluster)
    assert cluster.seconds == 0


def test_the_runs_own_cluster_is_waited_for_until_it_is_whole(answering):
    own = reservations(Compute(ray="cluster", trainers={"count": 2}, samplers={"count": 1}))
    part, whole = {"trainers": 1.0, "samplers": 1.0}, {"trainers": 2.0, "samplers": 1.0}
    joins = MemoryCluster((200, [node(answering)], part), (EVER, [node(answering)], whole))
    notes = []
    wait_for_nodes(own, joins, note=notes.append)
    assert joins.seconds == 200
    told = "waiting for the Ray cluster of the run, which has 1 of 2 trainers, 1 of 1 samplers"
    assert notes == [f"{told} ({seconds} s so far)" for seconds in (10, 20, 40, 80, 160)]
    never = MemoryCluster((EVER, [node(answering)], part))
    with pytest.raises(RunError, match=r"has 1 of 2 trainers, .*status\.ray of the run .* pods"):
        wait_for_nodes(own, never)
    assert never.seconds == WORKERS_S + 1


def test_an_actor_that_fits_on_no_node_is_refused_by_the_name_of_its_field(answering):
    split = reservations(
        Compute(ray="head:6379", trainers={}, samplers={"gpus": 4, "tensorParallel": 4})
    )
    half = {"CPU": 8.0, "GPU": 2.0, "memory": 1e12}
    two = [node(answering, **half), node(answering, **half)]
    whole = {"CPU": 16.0, "GPU": 4.0, "memory": 2e12}
    with pytest.raises(SpecError, match=r"^spec\.compute\.samplers\.gpus: 4 .* has 2; lower"):
        wait_for_nodes(split, MemoryCluster((EVER, two, whole)))
    wait_for_nodes(split, MemoryCluster((EVER, [node(answering, **whole)], whole)))
