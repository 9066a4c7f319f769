"""TLS over a network that cuts and holds back: bytes arrive whole, in order, and everybody is told when to go on."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "support"))

from secured_broker import CERTIFICATES, ServerTls, World, server_context

from barnabas.runtime.interfaces import Socket
from barnabas.runtime.tls_socket import TlsSocket
from barnabas.simulation.network import NetworkProfile

PROFILES = {
    "whole": NetworkProfile(),
    "in pieces": NetworkProfile(fragment_rate=0.5, window_bytes=5_000),
}


async def connected(world: World) -> tuple[TlsSocket, ServerTls]:
    accepted: list[Socket] = []
    world.network.host("localhost").listen("localhost", 1).start(accepted.append)
    near = await world.network.host("client").connect("localhost", 1)
    await world.until(lambda: bool(accepted))
    context = ssl.create_default_context(cafile=CERTIFICATES / "authority.pem")
    client, server = TlsSocket(near, context, "localhost"), ServerTls(accepted[0], server_context())
    shaking = world.loop.create_task(server.handshake())
    await client.handshake()
    await shaking
    return client, server


class Reader:
    """Reads as a frame reader does: at each call once, and not always with the same buffer."""

    def __init__(self, socket: TlsSocket, sizes: tuple[int, ...]) -> None:
        self.received = bytearray()
        self.has_ended = False
        self._sizes = sizes
        self._calls = 0
        self._socket = socket
        socket.on_readable(self._readable)

    def _readable(self) -> None:
        buffer = memoryview(bytearray(self._sizes[self._calls % len(self._sizes)]))
        self._calls += 1
        try:
            count = self._socket.receive_into(buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        if count == 0:
            self.has_ended = True
            self._socket.on_readable(None)
        self.received += buffer[:count]


class Writer:
    """Writes as a connection does: what was not taken when there is room."""

    def __init__(self, socket: TlsSocket, data: bytes) -> None:
        self.refusals = 0
        self._socket = socket
        self._rest = memoryview(data)
        self._write()

    def _write(self) -> None:
        try:
            while self._rest:
                self._rest = self._rest[self._socket.send(self._rest) :]
            self._socket.on_writable(None)
        except BlockingIOError:
            self.refusals += 1
            self._socket.on_writable(self._write)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=list(PROFILES))
@pytest.mark.parametrize("sizes", [(1000,), (300_000,), (7, 300_000, 20_000)], ids=str)
def test_bytes_arrive_both_ways(profile: NetworkProfile, sizes: tuple[int, ...]) -> None:
    world = World(profile)
    there, back = (b"".join(b"%d " % number for number in range(first, first + 50_000)) for first in (0, 10**6))

    async def scenario() -> None:
        client, server = await connected(world)
        at_server, at_client = Reader(server, sizes), Reader(client, sizes)
        writers = Writer(client, there), Writer(server, back)
        await world.until(lambda: len(at_server.received) == len(there) and len(at_client.received) == len(back))
        assert (at_server.received, at_client.received) == (there, back)
        assert all(writer.refusals for writer in writers), "the network took everything at once"
        server.close()
        await world.until(lambda: at_client.has_ended)

    world.run(scenario)


def test_a_peer_that_leaves_in_the_midst_of_the_handshake() -> None:
    world = World()

    async def scenario() -> None:
        world.network.host("localhost").listen("localhost", 1).start(lambda socket: socket.close())
        near = await world.network.host("client").connect("localhost", 1)
        with pytest.raises(ConnectionError):
            await TlsSocket(near, ssl.create_default_context(), "localhost").handshake()

    world.run(scenario)


def test_a_peer_that_leaves_while_bytes_wait_to_be_sent() -> None:
    world = World(NetworkProfile(window_bytes=5_000))

    async def scenario() -> None:
        client, server = await connected(world)
        reader = Reader(client, (1000,))
        assert client.send(bytes(100_000)) == 100_000
        with pytest.raises(BlockingIOError):
            client.send(b"more")
        server.close()
        await world.until(lambda: reader.has_ended)

    world.run(scenario)
