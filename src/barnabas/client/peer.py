"""One node as somebody speaks to it, for one purpose: a connection made when first needed, and again after it broke.

Always holds: at most one connection, and at most one attempt to make it, at a time; after a failure the next attempt
waits for a pause that doubles up to a bound, until the node answers something. Every wait for a connection ends.
Does not know: which node it is, why it is spoken to, versions (whoever `greet`s may ask for them).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.protocol import apis
from barnabas.protocol.message import Message
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Runtime, Socket

FAILURES_COUNTED_MAX = 10  # beyond this, the pause has reached any sensible bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for what."""

    request_timeout_ms: float
    connect_timeout_ms: float
    backoff_ms: float
    backoff_ms_max: float
    jitter: float = 0.0  # by which part of itself a pause may differ, so that not everybody comes back at once


class Peer:
    """`greet` is run on each new connection before anybody may use it; what it raises is why connecting failed.

    `secure` makes of a connected socket, and the address that was dialled, the one that is used.
    """

    def __init__(
        self,
        *,
        address: Callable[[], Address | None],
        runtime: Runtime,
        client_id: str,
        buffers: FrameBuffers,
        patience: Patience,
        on_lost: Callable[[], None],
        on_answer: Callable[[], None],
        greet: Callable[[ClientConnection], Awaitable[None]] | None = None,
        secure: Callable[[Socket, Address], Awaitable[Socket]] | None = None,
    ) -> None:
        self._address = address  # asked at each connection: nodes move
        self._runtime = runtime
        self._client_id = client_id
        self._buffers = buffers
        self._patience = patience
        self._on_lost = on_lost
        self._on_answer = on_answer
        self._greet = greet
        self._secure = secure
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._failures = 0  # attempts since the node answered last
        self._closed = False

    @property
    def connection(self) -> ClientConnection | None:
        """If there is one at this moment."""
        return self._connection

    @property
    def failures(self) -> int:
        """How often it was tried since the node answered last."""
        return self._failures

    async def request(self, message: Message, timeout_ms: float | None = None, version: int | None = None) -> Any:
        """At the newest version unless another is given."""
        connection = self._connection or await self.connected()
        if version is None:
            version = apis.api(type(message).API_KEY).max_stable_version
        answer = await connection.request(message, version, timeout_ms or self._patience.request_timeout_ms)
        self.succeeded()
        return answer

    def succeeded(self) -> None:
        """The node answers: the next connection may be made at once."""
        self._failures = 0
        self._on_answer()

    def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self.disconnect()

    def disconnect(self, reason: Exception | None = None) -> None:
        """The next one to ask gets a new connection, perhaps to another address."""
        if self._connection is not None:
            self._connection.close(reason)

    async def connected(self) -> ClientConnection:
        """For who needs more than one request at a time."""
        if self._closed:
            raise ConnectionLost("this client is stopping")
        if self._connection is not None:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(_is_known)
        connecting = self._connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            assert asking is not None
            if connecting.cancelled() and not asking.cancelling():  # by `close`: nobody else can
                raise ConnectionLost("this client is stopping") from None
            raise

    async def _connect(self) -> ClientConnection:
        try:
            if self._failures:
                await self._runtime.clock.sleep(self._pause_ms())
            address = self._address()
            if address is None:
                raise ConnectionLost("nobody knows where that node is")
            self._failures = min(self._failures + 1, FAILURES_COUNTED_MAX)
            try:
                socket = await asyncio.wait_for(self._dial(address), self._patience.connect_timeout_ms / 1000)
                connection = ClientConnection(
                    socket=socket,
                    clock=self._runtime.clock,
                    client_id=self._client_id,
                    buffers=self._buffers,
                    on_close=self._lost,
                )
            except (OSError, TimeoutError) as error:
                words = str(error) or f"no connection within {self._patience.connect_timeout_ms:.0f} ms"
                raise ConnectionLost(f"cannot connect to {address[0]}:{address[1]}: {words}") from error
            await self._introduce(connection, self._greet)
            self._connection = connection
            return connection
        finally:
            self._connecting = None

    async def _dial(self, address: Address) -> Socket:
        socket = await self._runtime.network.connect(*address)
        if self._secure is None:
            return socket
        try:
            return await self._secure(socket, address)
        except BaseException:
            socket.close()
            raise

    async def _introduce(
        self, connection: ClientConnection, greet: Callable[[ClientConnection], Awaitable[None]] | None
    ) -> None:
        try:
            if greet is not None:
                await greet(connection)
        except BaseException:
            connection.close()
            raise
        if connection.is_closed:
            raise ConnectionLost("the broker closed the connection")
        if self._closed:  # meanwhile, by who could not stop this in time: a wait may swallow that it was cancelled
            connection.close()
            raise ConnectionLost("this client is stopping")

    def _pause_ms(self) -> float:
        patience = self._patience
        pause_ms: float = min(patience.backoff_ms * 2 ** (self._failures - 1), patience.backoff_ms_max)
        if patience.jitter:
            pause_ms *= 1 + self._runtime.random.uniform(-patience.jitter, patience.jitter)
        return pause_ms

    def _lost(self) -> None:
        self._connection = None
        if not self._closed:
            self._on_lost()


def _is_known(connecting: asyncio.Task[ClientConnection]) -> None:
    """Whoever waited is told why it failed; perhaps nobody waits any more."""
    if not connecting.cancelled():
        connecting.exception()
