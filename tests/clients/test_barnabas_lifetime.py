"""Where clients begin and end: those that cannot start, and those that are used where they do not live."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from barnabas.client import Admin, Consumer, Producer, synchronous
from barnabas.client.errors import BrokersUnreachableError, ClientClosedError, IllegalStateError

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


def test_a_client_says_that_it_lives_in_another_event_loop(served: str) -> None:
    producer = Producer(bootstrap_servers=served)
    consumer = Consumer(bootstrap_servers=served)
    admin = Admin(bootstrap_servers=served)
    consumer.assign([("elsewhere", 0)])

    async def begin() -> None:
        for each in (producer, consumer, admin):
            await each.start()
        await producer.send_and_wait("elsewhere", b"")

    async def use() -> None:
        for call in (
            lambda: producer.send("elsewhere", b""),
            producer.flush,
            producer.close,
            consumer.poll,
            consumer.close,
            admin.describe_cluster,
        ):
            with pytest.raises(IllegalStateError, match="started in another event loop"):
                await call()

    async def end() -> None:
        for each in (producer, consumer, admin):
            await each.close()

    with asyncio.Runner() as runner:
        runner.run(begin())
        asyncio.run(use())
        runner.run(end())


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # Python's own advice, since 3.12
def test_a_script_that_forks(served: str) -> None:
    """A child has no thread of its parent: its copy of a client can do nothing, and closing it harms nobody."""
    with synchronous.Producer(bootstrap_servers=served) as producer:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with pytest.raises(ClientClosedError, match="make a new one"):
                    producer.send("forked", b"of the child")
                producer.close()
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert producer.send_and_wait("forked", b"of the parent").offset == 0


def test_what_a_callback_of_a_script_can_call(served: str) -> None:
    heard: list[Any] = []

    class Listener:
        def on_partitions_assigned(self, partitions: Any) -> None:
            consumer.seek_to_beginning(*partitions)
            heard.append(consumer.assignment())
            with pytest.raises(IllegalStateError, match="cannot wait for it"):
                consumer.commit()
            with pytest.raises(IllegalStateError, match="cannot close it"):
                consumer.close()

        def on_partitions_revoked(self, _partitions: Any) -> None:
            return

        on_partitions_lost = on_partitions_revoked

    with synchronous.Producer(bootstrap_servers=served) as producer:
        producer.send_and_wait("called-back", b"a")
    with synchronous.Consumer(bootstrap_servers=served, group_id="called-back") as consumer:
        consumer.subscribe(["called-back"], listener=Listener())
        assert [record.value for record in consumer.poll(60_000)] == [b"a"]
    assert heard == [{("called-back", 0)}]
