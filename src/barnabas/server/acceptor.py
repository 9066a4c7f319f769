"""The connections of one kind of listener: lets them in, counts them, and ends those that are idle.

Always holds: at most `max.connections` are open, and at most `max.connections.per.ip` from one address. One sweep
looks after all idle times, so that a connection costs no timer of its own.
"""

import logging
from collections.abc import Callable

from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.runtime.interfaces import Address, Listener, Runtime, Socket, Timer
from barnabas.server.connection import Connection
from barnabas.server.dispatch import Dispatcher
from barnabas.server.supervisor import Supervisor

logger = logging.getLogger(__name__)

IDLE_SWEEPS_PER_TIMEOUT = 4  # an idle connection lives at most a quarter longer than it may
SWEEP_INTERVAL_MS_MIN = 10  # a timeout of 0 must not make the broker sweep all the time


class Acceptor:
    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        runtime: Runtime,
        supervisor: Supervisor,
        limits: "Limits",
        on_closed: Callable[[Address], None] | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._on_closed = on_closed  # told the address of a peer that left
        self._runtime = runtime
        self._supervisor = supervisor
        self.limits = limits
        self._buffers = FrameBuffers()
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}  # a dict for its order
        self._per_address: dict[str, int] = {}
        self._sweep_timer: Timer | None = None

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def listen(self, host: str, port: int, send_buffer_bytes: int) -> Address:
        """Takes the address, so that it can be told to others; clients wait until `start`."""
        listener = self._runtime.network.listen(host, port, send_buffer_bytes)
        self._listeners.append(listener)
        return listener.address

    def start(self) -> None:
        for listener in self._listeners:
            listener.start(self._accept)
        self._sweep_later()

    def close(self) -> None:
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for listener in self._listeners:
            listener.close()
        self.drop_connections()

    def drop_connections(self, reason: str | None = None) -> int:
        """Those that are open now; how many they were."""
        dropped = tuple(self._connections)
        for connection in dropped:
            connection.close(reason)
        return len(dropped)

    def _accept(self, socket: Socket) -> None:
        address = socket.peer_address[0]
        if len(self._connections) >= self.limits.connections_max:
            refused = f"{self.limits.connections_max} connections are open, which is max.connections"
        elif self._per_address.get(address, 0) >= self.limits.connections_per_address_max:
            refused = f"max.connections.per.ip is {self.limits.connections_per_address_max}"
        else:
            refused = ""
        if refused:
            logger.warning("refused a connection from %s: %s", address, refused)
            socket.close()
            return
        self._per_address[address] = self._per_address.get(address, 0) + 1
        connection = Connection(
            socket=socket,
            dispatcher=self._dispatcher,
            buffers=self._buffers,
            clock=self._runtime.clock,
            offload=self._runtime.offload,
            supervisor=self._supervisor,
            frame_bytes_max=self.limits.frame_bytes_max,
            requests_in_flight_max=self.limits.requests_in_flight_max,
            on_close=self._closed,
        )
        self._connections[connection] = None

    def _closed(self, connection: Connection) -> None:
        del self._connections[connection]
        address = connection.socket.peer_address[0]
        self._per_address[address] -= 1
        if self._per_address[address] == 0:
            del self._per_address[address]
        if self._on_closed is not None:
            self._on_closed(connection.socket.peer_address)

    def _sweep_later(self) -> None:
        if self.limits.idle_ms_max < 0:
            return  # connections.max.idle.ms=-1: a silent connection stays open
        delay_ms = max(self.limits.idle_ms_max / IDLE_SWEEPS_PER_TIMEOUT, SWEEP_INTERVAL_MS_MIN)
        self._sweep_timer = self._runtime.clock.call_later(delay_ms, self._sweep)

    def _sweep(self) -> None:
        silent_since_ms = self._runtime.clock.monotonic_ms() - self.limits.idle_ms_max
        for connection in tuple(self._connections):
            if connection.active_ms < silent_since_ms and not connection.waiting:
                connection.close(f"idle for longer than {self.limits.idle_ms_max} ms")
        self._sweep_later()


class Limits:
    """From the broker's config; replaced as a whole when that changes."""

    __slots__ = (
        "connections_max",
        "connections_per_address_max",
        "frame_bytes_max",
        "idle_ms_max",
        "requests_in_flight_max",
    )

    def __init__(
        self,
        *,
        connections_max: int,
        connections_per_address_max: int,
        frame_bytes_max: int,
        requests_in_flight_max: int,
        idle_ms_max: int,
    ) -> None:
        self.connections_max = connections_max
        self.connections_per_address_max = connections_per_address_max
        self.frame_bytes_max = frame_bytes_max
        self.requests_in_flight_max = requests_in_flight_max
        self.idle_ms_max = idle_ms_max
