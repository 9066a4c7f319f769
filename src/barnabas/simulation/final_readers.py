"""Who reads everything once nothing happens any more: all records, all that is committed, all tables, all offsets.

Each goes on until it has caught up, however often it has to ask.
Does not know: what is right, and how long it may take.
"""

from __future__ import annotations

from collections.abc import Collection

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.simulation.client import Client, ClientConnection, Unavailable
from barnabas.simulation.committed_offsets import OffsetsQuestion, fetch_committed
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.history import FINAL_READER, TableReadAnew
from barnabas.simulation.participants import Board, Topic
from barnabas.simulation.stable_consumer import StableConsumer, TableReader

FIND_COORDINATOR_VERSION = 4
GROUP = 0


class FinalReaders:
    def __init__(self, client: Client, board: Board) -> None:
        self._client = client
        self._board = board

    async def read_all(self) -> None:
        board = self._board
        await self._read(Consumer(self._client, board, with_sessions=False, name=FINAL_READER), board.topics.values())
        if board.tables:
            board.history.tell(TableReadAnew())
            reader = TableReader(self._client, board, with_sessions=False, name=FINAL_READER)
            await self._read(reader, board.tables.values())

    async def read_committed(self, names: tuple[str, ...]) -> None:
        topics = [topic for topic in self._board.topics.values() if topic.name in names]
        reader = StableConsumer(self._client, self._board, topics=names, with_sessions=False, name=FINAL_READER)
        await self._read(reader, topics)

    async def _read(self, reader: Consumer, topics: Collection[Topic]) -> None:
        reader.sizes_max, reader.answer_sizes_max = (1 << 20,), (50 << 20,)

        def is_behind(topic: Topic) -> bool:
            return not all(map(reader.is_caught_up, topic.partition_ids()))

        while behind := [topic for topic in topics if is_behind(topic)]:
            try:
                await reader.poll(behind, wait_ms=10)
            except Unavailable:
                await reader.back_off()

    async def read_offsets(self, group: str, topic_name: str) -> None:
        (topic,) = [topic for topic in self._board.topics.values() if topic.name == topic_name]
        question = OffsetsQuestion(group=group, member=FINAL_READER, partition_ids=topic.partition_ids())
        while True:
            try:
                connection = await self._coordinator(group)
                await fetch_committed(self._client, connection, self._board.history, topic, question)
                return
            except Unavailable:
                await self._client.clock.sleep(100)

    async def _coordinator(self, group: str) -> ClientConnection:
        request = FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group])
        response = await self._client.call_any(request, FIND_COORDINATOR_VERSION)
        (answer,) = response.coordinators
        if answer.error_code != ErrorCode.NONE:
            raise Unavailable(f"no coordinator: {answer.error_code}")
        return await self._client.connection((answer.host, answer.port))
