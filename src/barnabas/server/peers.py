"""The other nodes of the cluster, as this one speaks to them.

One connection for each purpose and node, made when first needed and again after it broke, with a pause that grows. A
purpose is something that must not wait behind something else: heartbeats never queue behind a fetch.
Always holds: a request ends within its time, with an answer or an exception of ConnectionLost.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.protocol import apis
from barnabas.protocol.message import Message
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.types import BrokerId

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_MS = 2000  # quorum.request.timeout.ms
CONNECT_TIMEOUT_MS = 1000
BACKOFF_MS = 20
BACKOFF_MS_MAX = 500
DOUBT_MS = 1000  # a controller that lives has decided by then whether a broker does


class Peer:
    """One node, for one purpose."""

    def __init__(
        self,
        *,
        address: Callable[[], Address | None],
        runtime: Runtime,
        client_id: str,
        buffers: FrameBuffers,
        on_lost: Callable[[], None],
        on_answer: Callable[[], None],
    ) -> None:
        self._address = address  # asked at each connection: nodes move
        self._runtime = runtime
        self._client_id = client_id
        self._buffers = buffers
        self._on_lost = on_lost
        self._on_answer = on_answer
        self._connection: ClientConnection | None = None
        self._connecting: asyncio.Task[ClientConnection] | None = None
        self._failures = 0
        self._closed = False

    async def request(
        self, message: Message, timeout_ms: float = REQUEST_TIMEOUT_MS, version: int | None = None
    ) -> Any:
        """At the newest version unless another is given: all nodes of a cluster are of the same age."""
        connection = await self.connected()
        if version is None:
            version = apis.api(type(message).API_KEY).max_stable_version
        answer = await connection.request(message, version, timeout_ms)
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
        if self._connection is not None:
            self._connection.close()

    async def connected(self) -> ClientConnection:
        """For who needs more than one request at a time."""
        if self._closed:
            raise ConnectionLost("this node is stopping")
        if self._connection is not None:
            return self._connection
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect())
            self._connecting.add_done_callback(_is_known)
        return await asyncio.shield(self._connecting)

    async def _connect(self) -> ClientConnection:
        try:
            if self._failures:
                await self._runtime.clock.sleep(min(BACKOFF_MS << (self._failures - 1), BACKOFF_MS_MAX))
            address = self._address()
            if address is None:
                raise ConnectionLost("nobody knows where that node is")
            self._failures = min(self._failures + 1, 10)
            connecting = self._runtime.network.connect(*address)
            try:
                socket = await asyncio.wait_for(connecting, CONNECT_TIMEOUT_MS / 1000)
            except (OSError, TimeoutError) as error:
                raise ConnectionLost(f"cannot connect to {address[0]}:{address[1]}: {error}") from error
            self._connection = ClientConnection(
                socket=socket,
                clock=self._runtime.clock,
                client_id=self._client_id,
                buffers=self._buffers,
                on_close=self._lost,
            )
            return self._connection
        finally:
            self._connecting = None

    def _lost(self) -> None:
        self._connection = None
        if not self._closed:
            self._on_lost()


def _is_known(connecting: asyncio.Task[ClientConnection]) -> None:
    """Whoever waited is told why it failed; perhaps nobody waits any more."""
    if not connecting.cancelled():
        connecting.exception()


class Peers:
    """All of them. `address_of` knows where a node is, from the voters or from the metadata."""

    def __init__(
        self, *, node_id: BrokerId, runtime: Runtime, address_of: Callable[[BrokerId, str], Address | None]
    ) -> None:
        self._node_id = node_id
        self._runtime = runtime
        self._address_of = address_of
        self._buffers = FrameBuffers()
        self._peers: dict[tuple[BrokerId, str], Peer] = {}
        self._lost_ms: dict[BrokerId, float] = {}  # when a connection broke, where no answer came since

    def get(self, node_id: BrokerId, purpose: str, on_lost: Callable[[], None] | None = None) -> Peer:
        """`purpose` names the connection; it is also what the other node sees as the client's id."""
        peer = self._peers.get((node_id, purpose))
        if peer is None:

            def lost() -> None:
                self._lost_ms[node_id] = self._runtime.clock.monotonic_ms()
                if on_lost is not None:
                    on_lost()

            peer = self._peers[node_id, purpose] = Peer(
                address=lambda: self._address_of(node_id, purpose),
                runtime=self._runtime,
                client_id=f"barnabas-{self._node_id}-{purpose}",
                buffers=self._buffers,
                on_lost=lost,
                on_answer=lambda: self._answered(node_id),
            )
        return peer

    def _answered(self, node_id: BrokerId) -> None:
        """It lives. That a connection can be made says nothing: a dying process may close its listeners last."""
        if self._lost_ms:
            self._lost_ms.pop(node_id, None)

    def in_doubt(self) -> list[BrokerId]:
        """Nodes of which a connection broke a moment ago: they may be dead, though nobody has said so yet."""
        if not self._lost_ms:
            return []
        since_ms = self._runtime.clock.monotonic_ms() - DOUBT_MS
        self._lost_ms = {node_id: lost_ms for node_id, lost_ms in self._lost_ms.items() if lost_ms > since_ms}
        return list(self._lost_ms)

    def forget(self, node_id: BrokerId, purpose: str) -> None:
        peer = self._peers.pop((node_id, purpose), None)
        if peer is not None:
            peer.close()

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
