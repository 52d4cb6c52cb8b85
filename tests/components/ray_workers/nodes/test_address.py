"""Addresses of Ray clusters."""

import pytest

from agentrl_components.ray_workers.hand_over.nccl_client import meeting
from agentrl_components.ray_workers.nodes.address import address_of, host_and_port

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
