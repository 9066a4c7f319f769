"""Ports that are taken before anybody is told of them."""

import errno
import socket

import pytest

from barnabas.cli.ports import CAN_KEEP, Ports

HOST = "127.0.0.1"
only_where_kept = pytest.mark.skipif(not CAN_KEEP, reason="this system does not let two sockets share a port")


def test_free_ports_differ() -> None:
    with Ports(HOST) as ports:
        taken = [ports.take(0) for _ in range(20)]
        assert len(set(taken)) == 20
        assert all(taken)


@only_where_kept
def test_a_kept_port_is_refused_to_others_and_to_callers() -> None:
    with Ports(HOST) as ports:
        port = ports.take(0)
        ports.settle()
        with socket.socket() as other, pytest.raises(OSError) as refused:
            other.bind((HOST, port))  # which does not allow reuse
        assert refused.value.errno == errno.EADDRINUSE
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, port), timeout=5)


@only_where_kept
def test_whoever_it_is_kept_for_listens_there_again_and_again() -> None:
    with Ports(HOST) as ports:
        port = ports.take(0)
        ports.settle()
        for _ in range(2):
            with socket.create_server((HOST, port)) as listening, socket.create_connection((HOST, port), timeout=5):
                listening.accept()[0].close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((HOST, port), timeout=5)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server((HOST, 0)) as taken, Ports(HOST) as ports:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of {HOST} is in use"):
            ports.take(port)
