"""TCP sockets that their owner reads and writes directly, with sendfile.

The owner holds the socket itself rather than an asyncio transport: uvloop's transports have no sendfile, and a
transport would copy each record once more on its way through Python.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

from barnabas.runtime.interfaces import Address, Buffer, File

logger = logging.getLogger(__name__)

ACCEPTS_PER_WAKE_MAX = 64  # so that a storm of new connections does not starve the open ones
ACCEPT_PAUSE_SECONDS = 0.1  # out of descriptors: closing connections frees some; asking again at once would spin
_MORE = getattr(socket, "MSG_MORE", 0)  # Linux: hold this back until the file's bytes follow


class SystemSocket:
    """See `runtime.interfaces.Socket`."""

    __slots__ = ("_loop", "_reading", "_send", "_socket", "_writing", "local_address", "peer_address", "receive_into")

    def __init__(self, loop: asyncio.AbstractEventLoop, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._socket = connected
        self._reading = False
        self._writing = False
        self.local_address: Address = connected.getsockname()[:2]
        self.peer_address: Address = connected.getpeername()[:2]
        # Bound once: these are called for every request.
        self.receive_into: Callable[[memoryview], int] = connected.recv_into
        self._send = connected.send

    def send(self, data: Buffer, more: bool = False) -> int:
        return self._send(data, _MORE) if more else self._send(data)

    def send_file(self, file: File, position: int, size: int) -> int:
        descriptor: Callable[[], int] | None = getattr(file, "fileno", None)
        if descriptor is None:
            return self._send(file.read(position, min(size, 1 << 18)))
        return os.sendfile(self._socket.fileno(), descriptor(), position, size)

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        if callback is not None:
            if self._socket.fileno() == -1:
                raise ConnectionAbortedError("the connection was closed as soon as it was made")
            self._loop.add_reader(self._socket.fileno(), callback)
        elif self._reading:
            self._loop.remove_reader(self._socket.fileno())
        self._reading = callback is not None

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        if callback is not None:
            self._loop.add_writer(self._socket.fileno(), callback)
        elif self._writing:
            self._loop.remove_writer(self._socket.fileno())
        self._writing = callback is not None

    def close(self) -> None:
        self.on_readable(None)
        self.on_writable(None)
        self._socket.close()


class SystemListener:
    """Accepts until closed; pauses by itself while the process has no descriptor left."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listening: socket.socket) -> None:
        self._loop = loop
        self._socket = listening
        self._accept: Callable[[SystemSocket], None] | None = None
        self._resume: asyncio.TimerHandle | None = None
        self.address: Address = listening.getsockname()[:2]

    def start(self, accept: Callable[[SystemSocket], None]) -> None:
        self._accept = accept
        self._listen()

    def close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _listen(self) -> None:
        self._resume = None
        self._loop.add_reader(self._socket.fileno(), self._accept_ready)

    def _accept_ready(self) -> None:
        assert self._accept is not None
        for _ in range(ACCEPTS_PER_WAKE_MAX):
            try:
                connected, _peer = self._socket.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # the peer left between its SYN and our accept
            except OSError as error:
                logger.error("cannot accept connections for now: %s", error)
                self._loop.remove_reader(self._socket.fileno())
                self._resume = self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._listen)
                return
            try:
                wrapped = SystemSocket(self._loop, connected)
            except OSError:
                connected.close()  # it was reset before its first byte
                continue
            self._accept(wrapped)


class SystemNetwork:
    def __init__(self, loop: asyncio.AbstractEventLoop, backlog: int = 1024) -> None:
        self._loop = loop
        self._backlog = backlog

    def listen(self, host: str, port: int, send_buffer_bytes: int = -1) -> SystemListener:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if send_buffer_bytes != -1:  # connections have it from their listener
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(self._backlog)
        except OSError as error:
            listening.close()
            raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from error
        return SystemListener(self._loop, listening)

    async def connect(self, host: str, port: int) -> SystemSocket:
        """To the first address of the name that takes the connection: `localhost` is often two."""
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for each in found[:-1]:
            try:
                return await self._connect(*each)
            except OSError as error:
                logger.debug("cannot connect to %s at %s: %s", host, each[4], error)
        return await self._connect(*found[-1])

    async def _connect(self, family: int, kind: int, protocol: int, _name: str, address: Any) -> SystemSocket:
        connecting = socket.socket(family, kind, protocol)
        connecting.setblocking(False)
        try:
            await self._loop.sock_connect(connecting, address)
            return SystemSocket(self._loop, connecting)
        except BaseException:
            connecting.close()
            raise
