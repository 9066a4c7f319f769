"""An acceptor and its idle connections, on a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from barnabas.runtime.interfaces import Address, Runtime
from barnabas.server.acceptor import Acceptor, Limits

HOUR_MS = 3_600_000


class MovedClock:
    """Runs what is due when the test moves it."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self.due: list[tuple[float, Callable[[], object]]] = []

    def monotonic_ms(self) -> float:
        return self.time_ms

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> Any:
        assert delay_ms > 0, "a timer without a delay never lets the broker rest"
        self.due.append((self.time_ms + delay_ms, callback))

    def move(self, by_ms: float) -> None:
        end_ms = self.time_ms + by_ms
        while self.due and min(self.due)[0] <= end_ms:
            first = min(self.due, key=lambda each: each[0])
            self.due.remove(first)
            self.time_ms = first[0]
            first[1]()
        self.time_ms = end_ms


class SilentSocket:
    local_address: Address = ("127.0.0.1", 9092)
    peer_address: Address = ("127.0.0.1", 40000)
    closed = False

    def on_readable(self, callback: Callable[[], None] | None) -> None:
        """Nothing ever comes."""

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        """Nothing is ever sent."""

    def close(self) -> None:
        self.closed = True


class OneVisitor:
    """A network with one listener, to which one connection comes."""

    address: Address = ("127.0.0.1", 9092)

    def __init__(self) -> None:
        self.socket = SilentSocket()

    def listen(self, host: str, port: int, send_buffer_bytes: int) -> OneVisitor:
        return self

    def start(self, accept: Callable[[Any], None]) -> None:
        accept(self.socket)


class World:
    def __init__(self, idle_ms_max: int) -> None:
        self.clock = MovedClock()
        self.offload = cast(Any, None)
        self.network = OneVisitor()
        self.offload = cast(Any, None)
        limits = Limits(
            connections_max=10,
            connections_per_address_max=10,
            frame_bytes_max=1000,
            requests_in_flight_max=10,
            idle_ms_max=idle_ms_max,
        )
        acceptor = Acceptor(
            dispatcher=cast(Any, None), runtime=cast(Runtime, self), supervisor=cast(Any, None), limits=limits
        )
        acceptor.listen("", 9092, -1)
        acceptor.start()


@pytest.mark.parametrize(("idle_ms_max", "lives_ms"), [(300, 300), (0, 0)])
def test_a_silent_connection_is_closed_after_its_time(idle_ms_max: int, lives_ms: int) -> None:
    world = World(idle_ms_max)
    world.clock.move(lives_ms)
    assert not world.network.socket.closed
    world.clock.move(lives_ms / 4 + 20)
    assert world.network.socket.closed


def test_minus_one_never_closes_a_silent_connection() -> None:
    world = World(-1)
    world.clock.move(1000 * HOUR_MS)
    assert not world.network.socket.closed
