"""A node as somebody speaks to it: what becomes of its connection when all is over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.client.peer import Patience, Peer
from barnabas.runtime.frame_reader import FrameBuffers


class Socket:
    def __init__(self) -> None:
        self.is_closed = False

    def on_readable(self, callback: object) -> None: ...

    def on_writable(self, callback: object) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def peer(socket: Socket, greet: Any) -> Peer:
    async def connect(_host: str, _port: int) -> Socket:
        return socket

    runtime: Any = SimpleNamespace(network=SimpleNamespace(connect=connect), clock=None, random=None)
    return Peer(
        address=lambda: ("host", 1),
        runtime=runtime,
        client_id="me",
        buffers=FrameBuffers(),
        patience=Patience(request_timeout_ms=1000, connect_timeout_ms=1000, backoff_ms=1, backoff_ms_max=1),
        on_lost=lambda: None,
        on_answer=lambda: None,
        greet=greet,
    )


@pytest.mark.parametrize("is_deaf", [False, True])
def test_a_connection_that_is_made_while_all_ends_is_closed(is_deaf: bool) -> None:
    """Even where whoever makes it does not hear that it should stop."""

    async def scenario() -> None:
        socket, greeting = Socket(), asyncio.Event()

        async def greet(_connection: ClientConnection) -> None:
            greeting.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not is_deaf:
                    raise

        made = peer(socket, greet)
        asking = asyncio.ensure_future(made.connected())
        await greeting.wait()
        made.close()
        with pytest.raises(ConnectionLost, match="this client is stopping"):
            await asking
        assert socket.is_closed
        assert made.connection is None

    asyncio.run(asyncio.wait_for(scenario(), 60))
