"""Who reads everything once nothing happens any more: all records, all that is committed, all tables, all offsets.

Each goes on until it has caught up, however often it has to ask.
Does not know: what is right, and how long it may take.
"""

from __future__ import annotations

from collections.abc import Collection

from barnabas.simulation.client import Client, Unavailable
from barnabas.simulation.committed_offsets import OffsetsQuestion, fetch_committed
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.history import FINAL_READER, TableReadAnew
from barnabas.simulation.participants import Board, Topic
from barnabas.simulation.stable_consumer import StableConsumer, TableReader
from barnabas.simulation.transactional_client import shared
from barnabas.simulation.transactional_producer import GROUP, TransactionalProducer


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

    async def read_offsets(self, group: str, topic_name: str, share: tuple[int, int]) -> None:
        (topic,) = [topic for topic in self._board.topics.values() if topic.name == topic_name]
        partition_ids = shared(topic, share)
        asking = TransactionalProducer(self._client, transactional_id=group, version=2, timeout_ms=1)
        question = OffsetsQuestion(group=group, member=FINAL_READER, partition_ids=partition_ids)
        while partition_ids:
            try:
                connection = await asking.coordinator(GROUP, group)
                await fetch_committed(self._client, connection, self._board.history, topic, question)
                return
            except Unavailable:
                asking.forget_coordinators()
                await self._client.clock.sleep(100)
