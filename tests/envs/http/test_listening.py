"""Sockets that accept connections of both families."""

import errno
import socket

import pytest

from agentrl_envs.http.listening import listening_socket

dual_stack = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")


def answers(family, address, port):
    with socket.socket(family) as client:
        client.settimeout(5)
        return client.connect_ex((address, port)) == 0


@dual_stack
def test_all_addresses_are_those_of_both_families():
    with listening_socket("::", 0) as bound:
        port = bound.getsockname()[1]
        assert answers(socket.AF_INET, "127.0.0.1", port)
        assert answers(socket.AF_INET6, "::1", port)


@dual_stack
def test_an_address_is_listened_on_alone():
    with listening_socket("::1", 0) as bound:
        port = bound.getsockname()[1]
        assert answers(socket.AF_INET6, "::1", port)
        assert not answers(socket.AF_INET, "127.0.0.1", port)


@pytest.mark.parametrize("error", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_without_ipv6_all_addresses_are_those_of_ipv4(error):
    def of_ipv4_only(family, kind, protocol):
        if family == socket.AF_INET6:
            raise OSError(error, "no IPv6")
        return socket.socket(family, kind, protocol)

    with listening_socket("::", 0, of_ipv4_only) as bound:
        assert bound.getsockname()[0] == "0.0.0.0"
        assert answers(socket.AF_INET, "127.0.0.1", bound.getsockname()[1])


def test_a_port_that_is_in_use_is_not_taken_of_ipv4_alone():
    with listening_socket("::", 0) as bound, pytest.raises(OSError, match="in use"):
        listening_socket("::", bound.getsockname()[1])
