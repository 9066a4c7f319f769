"""A connection whose broker says what cannot be: whoever waits is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.runtime.frame_reader import FrameBuffers
from barnabas.simulation.loop import VirtualClock, VirtualLoop


class Socket:
    """Takes everything, and brings what the test says."""

    peer_address = ("x", 1)

    def __init__(self) -> None:
        self.readable: Callable[[], None] = lambda: None
        self.arrived = b""

    def on_readable(self, callback: Callable[[], None]) -> None:
        self.readable = callback

    def on_writable(self, callback: object) -> None: ...

    def send(self, data: memoryview) -> int:
        return len(data)

    def receive_into(self, buffer: memoryview) -> int:
        if not self.arrived:
            raise BlockingIOError
        count = min(len(buffer), len(self.arrived))
        buffer[:count] = self.arrived[:count]
        self.arrived = self.arrived[count:]
        return count

    def close(self) -> None: ...

    def bring(self, frame: bytes) -> None:
        self.arrived += len(frame).to_bytes(4, "big") + frame
        self.readable()


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (bytes([0, 0, 0, 9, 0]), "an answer to request 9"),
        (bytes([0, 0, 0, 1, 0]) + b"\xff" * 3, "broke"),
        (bytes([0, 0]), "broke"),
    ],
)
@pytest.mark.parametrize("is_handled", [False, True])
def test_an_answer_that_cannot_be_read_is_no_reason_to_wait_for_ever(
    frame: bytes, words: str, is_handled: bool
) -> None:
    loop = VirtualLoop()

    async def scenario() -> None:
        socket = Socket()
        connection = ClientConnection(
            socket=socket,  # type: ignore[arg-type]
            clock=VirtualClock(loop),
            client_id="me",
            buffers=FrameBuffers(),
        )
        asked: list[asyncio.Future[Any]]
        if is_handled:
            asked = [connection.request_and_handle(MetadataRequest(), 12, lambda _: None, 1e9) for _ in range(2)]
        else:
            asked = [connection.request(MetadataRequest(), 12, 1e9) for _ in range(2)]
        socket.bring(frame)
        for each in asked:
            with pytest.raises(ConnectionLost, match=words):
                async with asyncio.timeout(3600):
                    await each

    loop.run(scenario())


def test_a_bug_in_reading_an_answer_is_no_reason_either(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(MetadataResponse, "decode", fails)
    test_an_answer_that_cannot_be_read_is_no_reason_to_wait_for_ever(bytes([0, 0, 0, 1, 0, 0]), "broke", False)
    assert "cannot be read" in caplog.text
