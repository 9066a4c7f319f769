"""Sockets of the operating system."""

from __future__ import annotations

import asyncio
import socket

import pytest

from barnabas.runtime.interfaces import Socket
from barnabas.runtime.system.network import SystemNetwork

WAIT_SECONDS_MAX = 60


def sent_to_a_peer_that_does_not_read(send_buffer_bytes: int) -> int:
    async def send() -> int:
        loop = asyncio.get_running_loop()
        listener = SystemNetwork(loop).listen("127.0.0.1", 0, send_buffer_bytes)
        accepted: asyncio.Future[Socket] = loop.create_future()
        listener.start(accepted.set_result)
        with socket.create_connection(listener.address):
            connection = await asyncio.wait_for(accepted, WAIT_SECONDS_MAX)
            sent = connection.send(bytes(1 << 20))
            connection.close()
        listener.close()
        return sent

    return asyncio.run(send())


def test_a_connection_has_the_send_buffer_of_its_listener() -> None:
    assert sent_to_a_peer_that_does_not_read(1 << 14) < sent_to_a_peer_that_does_not_read(1 << 18)


def test_who_would_read_from_a_closed_socket_hears_that_it_is_closed() -> None:
    async def read() -> None:
        network = SystemNetwork(asyncio.get_running_loop())
        listener = network.listen("127.0.0.1", 0)
        connection = await network.connect(*listener.address)
        connection.close()
        listener.close()
        with pytest.raises(ConnectionError):
            connection.on_readable(lambda: None)

    asyncio.run(read())
