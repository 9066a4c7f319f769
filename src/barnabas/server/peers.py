"""The other nodes of the cluster, as this one speaks to them.

One connection for each purpose and node, made when first needed and again after it broke, with a pause that grows. A
purpose is something that must not wait behind something else: heartbeats never queue behind a fetch.
Always holds: a request ends within its time, with an answer or an exception of ConnectionLost.
"""

from collections.abc import Callable

from barnabas.client.peer import Patience, Peer
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.types import BrokerId

REQUEST_TIMEOUT_MS = 2000  # quorum.request.timeout.ms
CONNECT_TIMEOUT_MS = 1000
BACKOFF_MS = 20
BACKOFF_MS_MAX = 500
DOUBT_MS = 1000  # a controller that lives has decided by then whether a broker does
PATIENCE = Patience(
    request_timeout_ms=REQUEST_TIMEOUT_MS,
    connect_timeout_ms=CONNECT_TIMEOUT_MS,
    backoff_ms=BACKOFF_MS,
    backoff_ms_max=BACKOFF_MS_MAX,
)


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
                patience=PATIENCE,
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
