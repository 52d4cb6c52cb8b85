"""Whether the Ray of a run is still there."""

import socket

import pytest
from free_ports import free_ports

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.nodes.liveness import ASK_S, Liveness

HOST = "127.0.0.1"


def test_every_check_fails_from_when_the_head_has_been_silent_too_long_until_it_answers():
    (port,) = free_ports(1)
    now = [100.0]
    liveness = Liveness(f"{HOST}:{port}", None, head_s=0.0, clock=lambda: now[0])
    liveness.check()  # its silence has lasted no time yet
    now[0] += ASK_S
    for _ in range(2):  # the second one does not ask the head
        with pytest.raises(RunError, match="the head of the Ray cluster does not answer"):
            liveness.check()
    with socket.create_server((HOST, port)):
        now[0] += ASK_S
        liveness.check()


class EndedNode:
    ended = True


def test_the_end_of_the_node_of_this_process_is_told_first():
    with pytest.raises(RunError, match="node on this machine died"):
        Liveness(f"{HOST}:1", EndedNode(), head_s=0.0).check()
