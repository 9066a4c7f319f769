"""Consumers that read with read_committed: as others do, and of compacted topics as tables.

Always holds: what is told is what a real consumer would give its user, without the aborted transactions that the
broker names. Does not know: which transactions were aborted.
"""

from __future__ import annotations

from barnabas.protocol.messages.fetch import PartitionData
from barnabas.protocol.special_numbers import READ_COMMITTED
from barnabas.simulation.client import Client
from barnabas.simulation.consumer import Consumer
from barnabas.simulation.fetched_batches import read_batches
from barnabas.simulation.history import PartitionId, StableFetched, TableFetched
from barnabas.simulation.participants import Board
from barnabas.types import Offset


class StableConsumer(Consumer):
    """Of the topics with these names."""

    ISOLATION_LEVEL = READ_COMMITTED

    def __init__(
        self, client: Client, board: Board, *, topics: tuple[str, ...], with_sessions: bool, name: str | None = None
    ) -> None:
        super().__init__(client, board, with_sessions=with_sessions, name=name)
        self._topic_names = topics

    async def step(self) -> None:
        await self.poll([topic for topic in self.board.topics.values() if topic.name in self._topic_names])

    def accept(self, partition_id: PartitionId, offset: Offset, leader_epoch: int, data: PartitionData) -> Offset:
        found = read_batches(data.records, offset, data.aborted_transactions)
        self.watermarks[partition_id] = data.last_stable_offset
        records = tuple((record.offset, record.value or b"") for record in found.records)
        self.board.history.tell(
            StableFetched(
                reader=self.name,
                partition_id=partition_id,
                offset=offset,
                next_offset=found.next_offset,
                leader_epoch=leader_epoch,
                last_stable_offset=data.last_stable_offset,
                high_watermark=data.high_watermark,
                records=records,
            )
        )
        return found.next_offset


class TableReader(Consumer):
    """Reads compacted topics from end to end."""

    ISOLATION_LEVEL = READ_COMMITTED

    def accept(self, partition_id: PartitionId, offset: Offset, leader_epoch: int, data: PartitionData) -> Offset:
        found = read_batches(data.records, offset, data.aborted_transactions)
        self.watermarks[partition_id] = data.last_stable_offset
        self.board.history.tell(
            TableFetched(
                partition_id=partition_id,
                records=tuple((record.offset, record.key or b"", record.value or b"") for record in found.records),
            )
        )
        return found.next_offset
