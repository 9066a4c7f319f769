"""TLS over any socket, as its client: bytes are ciphered in memory, and the socket below carries them.

Always holds: its owner reads and writes as with the socket below. Ciphertext that the socket did not take leaves before
anything else is ciphered, so little more than SEND_BYTES_MAX of it wait; plain bytes that are left of what was received
are offered to the owner at once, for the socket below says nothing of them.
Does not know: sockets of the system, certificates (the context has them), what the bytes mean.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from barnabas.runtime.interfaces import Address, Buffer, File, Socket

RECEIVE_BYTES = 128 * 1024  # of ciphertext at a time: eight records of the largest size
SEND_BYTES_MAX = 256 * 1024  # plain bytes ciphered at a time: about what a socket takes


class TlsSocket:
    """See `runtime.interfaces.Socket`. Nothing is sent or received before `handshake` has returned."""

    def __init__(self, socket: Socket, context: ssl.SSLContext, host: str) -> None:
        self.local_address: Address = socket.local_address
        self.peer_address: Address = socket.peer_address
        self._socket = socket
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # As Any: with a buffer, `read` gives a number and not the bytes that it is declared to give.
        self._tls: Any = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._received = memoryview(bytearray(RECEIVE_BYTES))
        self._unsent = memoryview(b"")  # ciphertext that the socket did not take yet
        self._has_more = False  # whether plain bytes may be left of what was received
        self._readable: Callable[[], None] | None = None
        self._writable: Callable[[], None] | None = None

    async def handshake(self) -> None:
        """ssl.SSLError where both do not agree; any other OSError where the peer is gone."""
        while True:
            try:
                self._tls.do_handshake()
                self._send_ciphertext()
                return
            except ssl.SSLWantReadError:
                self._send_ciphertext()
            except ssl.SSLError:
                with suppress(OSError):
                    self._send_ciphertext()  # the alert, so that the peer can say in its log what happened
                raise
            if not await self._receive_soon():
                raise ConnectionResetError("the peer closed the connection in the midst of the TLS handshake")

    def receive_into(self, buffer: memoryview) -> int:
        count = self._decipher(buffer)
        if count is None:
            count = self._decipher(buffer) if self._receive() else 0
        if self._outgoing.pending:
            self._send_ciphertext()  # TLS answers by itself, for instance where the peer wants new keys
        if count is None:
            raise BlockingIOError  # a part of a record is there, and cannot be read yet
        self._has_more = count == len(buffer)
        return count

    def send(self, data: Buffer, more: bool = False) -> int:
        if self._unsent:
            raise BlockingIOError
        count: int = self._tls.write(memoryview(data)[:SEND_BYTES_MAX])
        self._send_ciphertext()
        return count

    def send_file(self, file: File, position: int, size: int) -> int:
        return self.send(file.read(position, min(size, SEND_BYTES_MAX)))

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        self._readable = callback
        self._socket.on_readable(None if callback is None else self._offer)

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self._writable = callback
        self._watch_writing()

    def close(self) -> None:
        self._readable = self._writable = None
        self._socket.close()

    # Reading

    def _offer(self) -> None:
        self._has_more = True
        while self._has_more and self._readable is not None:
            self._has_more = False
            self._readable()

    def _decipher(self, buffer: memoryview) -> int | None:
        """What can be read of what was received; 0 at the end of the stream, None where there is nothing yet."""
        count = 0
        while count < len(buffer):
            try:
                read = self._tls.read(len(buffer) - count, buffer[count:])
            except ssl.SSLWantReadError:
                return count or None
            if read == 0:
                break
            count += read
        return count

    def _receive(self) -> bool:
        """Takes ciphertext from the socket; False at its end."""
        count = self._socket.receive_into(self._received)
        self._incoming.write(self._received[:count])
        return count > 0

    async def _receive_soon(self) -> bool:
        readable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._socket.on_readable(lambda: None if readable.done() else readable.set_result(None))
        try:
            await readable
            return self._receive()
        except BlockingIOError:
            return True
        finally:
            self._socket.on_readable(None)

    # Writing

    def _send_ciphertext(self) -> None:
        """As much as the socket takes; the rest when it takes more."""
        try:
            while self._unsent or self._outgoing.pending:
                if not self._unsent:
                    self._unsent = memoryview(self._outgoing.read())
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass  # `_watch_writing` waits for room
        self._watch_writing()

    def _watch_writing(self) -> None:
        wanted = bool(self._unsent) or self._writable is not None
        self._socket.on_writable(self._write_on if wanted else None)

    def _write_on(self) -> None:
        try:
            self._send_ciphertext()
        except OSError:
            # A connection that takes nothing any more has ended for reading as well, and its owner hears of it there.
            self._unsent = memoryview(b"")
            self._watch_writing()
        if self._writable is not None and not self._unsent:
            self._writable()
