"""Clients that cannot start leave nothing open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, Producer
from barnabas.client.errors import BrokersUnreachableError

WAIT_SECONDS_MAX = 120.0


@pytest.mark.parametrize(
    ("kind", "setting"),
    [(Admin, "request_timeout_ms"), (Consumer, "request_timeout_ms"), (Producer, "max_block_ms")],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_connections_are_closed_where_nobody_answers(kind: Any, setting: str) -> None:
    ends: list[asyncio.Event] = []  # of each connection

    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(end := asyncio.Event())
        while await reader.read(1000):
            pass
        end.set()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(stay_silent, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with pytest.raises(BrokersUnreachableError):
                async with kind(bootstrap_servers=f"{host}:{port}", **{setting: 300}):
                    raise AssertionError("it must not come to this")
            assert ends
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                for end in ends:
                    await end.wait()

    asyncio.run(scenario())
