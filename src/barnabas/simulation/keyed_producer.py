"""A producer into compacted topics: keys that it writes again and again, and takes back with tombstones.

Always holds: a key belongs to one producer id and one partition, so that all that was written to it has one order.
Does not know: compaction.
"""

from __future__ import annotations

from barnabas.simulation.client import Client
from barnabas.simulation.history import PartitionId, stamped
from barnabas.simulation.participants import Board, Producer, Topic

KEYS_PER_PARTITION = 5
TOMBSTONE_RATE = 0.2


class KeyedProducer(Producer):
    def __init__(self, client: Client, board: Board) -> None:
        super().__init__(client, board, acks=-1, idempotent=True)

    def topics(self) -> list[Topic]:
        return list(self.board.tables.values())

    def keys(self, partition_id: PartitionId, count: int) -> tuple[bytes, ...]:
        numbers = [self.client.random.randrange(KEYS_PER_PARTITION) for _ in range(count)]
        return tuple(f"{self.writer}-{partition_id.partition}-{number}".encode() for number in numbers)

    def value(self, number: int, partition_id: PartitionId) -> bytes:
        random = self.client.random
        if random.random() < TOMBSTONE_RATE:
            return b""
        size_bytes = random.randint(1, self.board.habits.value_bytes_max)
        return stamped(self.writer, number, partition_id, size_bytes)
