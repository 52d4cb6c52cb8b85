"""Addresses of Ray clusters."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from agentrl_components.errors import RunError
from agentrl_components.ray_workers.hand_over.nccl_client import meeting
from agentrl_components.ray_workers.nodes.address import (
    ReservedPort,
    check_protocol,
)
from agentrl_envs.http.address import address_of, host_and_port

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


SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The header of an empty SETTINGS frame of HTTP/2."""


@contextmanager
def answering(answer):
    """The address of a server that sends this to the first client, and then closes."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as serving:

        def serve():
            with server.accept()[0] as connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        served = serving.submit(serve)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        served.result()


def test_a_server_that_speaks_http_2_may_be_a_head():
    with answering(SETTINGS) as address:
        check_protocol(address)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6", b"HTTP/1.1 400 Bad Request"])
def test_a_server_that_speaks_another_protocol_is_refused_by_the_field(answer):
    told = r"compute\.ray: what answers at \S+ is not the head .*\(6379 .* dashboard \(8265\)"
    with answering(answer) as address, pytest.raises(RunError, match=told):
        check_protocol(address)


def test_a_server_that_says_nothing_is_refused_after_the_time_for_an_answer():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = address_of(*silent.getsockname())
        with pytest.raises(RunError, match="is not the head of a Ray cluster"):
            check_protocol(address, answer_s=0.1)
