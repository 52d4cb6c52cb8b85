"""The process group of the ranks, and where they meet."""

import os
import socket

import pytest
import torch.distributed as dist
from rank_sockets import on_two_ranks

from agentrl_components.sharded.process_group import MeetingPoint, join_group

LOOPBACK = pytest.mark.parametrize("host", ["127.0.0.1", "::1"])


@LOOPBACK
def test_ranks_that_meet_on_the_loopback_interface_listen_on_no_other(host, tmp_path):
    for found in on_two_ranks(host, tmp_path):
        assert found.total == 1.0 + 2.0
        assert found.hosts <= {"127.0.0.1", "::1"}


def test_other_addresses_of_the_machine_do_not_accept_connections_to_the_meeting_point():
    meeting = MeetingPoint("127.0.0.1")
    port = int(meeting.address.rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port))


def test_meeting_points_that_are_open_at_once_have_different_ports():
    meetings = [MeetingPoint("127.0.0.1") for _ in range(20)]
    assert len({meeting.address for meeting in meetings}) == 20


def test_the_environment_is_as_it_was_after_a_group_was_joined():
    meeting = MeetingPoint("127.0.0.1")
    before = dict(os.environ)
    join_group("gloo", meeting.address, 0, 1)
    try:
        assert dict(os.environ) == before
    finally:
        dist.destroy_process_group()
