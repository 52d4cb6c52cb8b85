"""Addresses of Ray clusters."""

import socket

import pytest

from agentrl_components.ray_workers.hand_over.nccl_client import meeting
from agentrl_components.ray_workers.nodes.address import (
    ReservedPort,
    address_of,
    host_and_port,
)

BOTH = pytest.mark.parametrize(
    ("host", "address"),
    [("10.0.0.7", "10.0.0.7:6379"), ("head", "head:6379"), ("fd00::1", "[fd00::1]:6379")],
)


@BOTH
def test_an_address_of_ipv6_is_in_brackets(host, address):
    assert address_of(host, 6379) == address
    assert host_and_port(address) == (host, 6379)


@BOTH
def test_a_process_group_of_vllm_meets_at_the_host_without_brackets(host, address):
    assert meeting(address) == {"master_address": host, "master_port": 6379}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_reserved_port_is_refused_to_others_but_not_to_who_is_told_its_number(host):
    reserved = ReservedPort(host)
    port = host_and_port(reserved.address)[1]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
        other.bind((host, port))
    with socket.socket(family) as told:
        told.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        told.bind((host, port))
        told.listen()
        reserved.release()
        socket.create_connection((host, port)).close()


def test_a_released_port_is_free():
    reserved = ReservedPort("127.0.0.1")
    reserved.release()
    with socket.socket() as other:
        other.bind(host_and_port(reserved.address))
