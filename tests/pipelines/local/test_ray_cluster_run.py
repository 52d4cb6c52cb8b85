"""A run on a Ray cluster that loses a node with actors, and its head."""

import time

import pytest
from corridor_run import manifest
from free_ports import free_ports
from local_run import results, run_to_end
from ray_nodes import below, started

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.calls.results import check_ray
from agentrl_components.ray_workers.nodes.embedded import restrict_access
from agentrl_components.run.progress import SilentProgressView

pytestmark = pytest.mark.load
pytest.importorskip("ray")

HEAD, NODES = "127.0.0.2", ("127.0.0.3", "127.0.0.4", "127.0.0.5")
"""Addresses of the loopback network that stand for machines."""


class ActingView(SilentProgressView):
    """Calls functions after some iterations."""

    def __init__(self, actions):
        super().__init__()
        self.actions = dict(actions)
        """Function by iteration."""

    def iteration(self, progress):
        super().iteration(progress)
        self.actions.pop(progress.iteration, lambda: None)()


def on(ray):
    """The manifest, on this Ray: its actors need three CPUs."""
    trainers, samplers = {"count": 2, "cpu": "500m"}, {"count": 2}
    compute = {"workers": 0, "device": "auto", "ray": ray}
    return manifest(compute=compute | {"trainers": trainers, "samplers": samplers})


def head(port):
    """A head without CPUs: actors run on other nodes."""
    flags = ("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
    return started(HEAD, *flags)


def node(host, port):
    """A node with room for all actors."""
    return started(host, f"--address={HEAD}:{port}", "--num-cpus=4")


@pytest.fixture
def port():
    return free_ports(1)[0]


def test_results_are_the_same_after_a_node_and_the_head_were_lost(tmp_path_factory, port):
    restrict_access()
    calm, root = tmp_path_factory.mktemp("calm"), tmp_path_factory.mktemp("lost")
    run_to_end(on("embedded"), calm)
    run = on(f"{HEAD}:{port}")
    with (
        head(port) as first,
        node(NODES[0], port) as one,
        node(NODES[1], port) as other,
    ):

        def lose_a_node():
            lost = one if below(one, "ray::RankActor") else other
            # All at once, as with a machine: actors outlive their raylet by up to a second.
            for process in below(lost, ""):
                process.kill()

        def lose_the_head():
            below(first, "gcs_server")[0].kill()
            while True:  # as an iteration that takes longer than it takes to notice
                check_ray()
                time.sleep(1)

        view = ActingView({4: lose_a_node, 8: lose_the_head})
        with pytest.raises(RunError, match=rf"spec\.compute\.ray: .* {HEAD}:{port}"):
            run_to_end(run, root, view)
    assert not view.actions
    # Once: no actor was started on the node that had died.
    assert sum("resumes from its last checkpoint" in note for note in view.notes) == 1
    with head(port), node(NODES[2], port):
        run_to_end(run, root)
    assert results(root) == results(calm)
