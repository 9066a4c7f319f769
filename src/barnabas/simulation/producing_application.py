"""Applications that produce without transactions: records in bursts, or keys into compacted topics.

Always holds: a producer that might write twice (without idempotence) sends everything once.
Does not know: what becomes of a record after it was acknowledged.
"""

from __future__ import annotations

import asyncio

from barnabas.client.errors import KafkaError
from barnabas.client.producing.outcomes import RecordFuture
from barnabas.client.producing.producer import Producer
from barnabas.simulation.application import Application, Host
from barnabas.simulation.history import (
    Batch,
    PartitionId,
    ProduceAcknowledged,
    ProduceAsked,
    ProduceGivenUp,
    stamped,
)
from barnabas.simulation.participants import Board, Topic

BURST_MAX = 12
KEYS_PER_PARTITION = 5
TOMBSTONE_RATE = 0.2


class ProducingApplication(Application):
    def __init__(self, host: Host, board: Board, *, acks: int, is_idempotent: bool) -> None:
        super().__init__(host, board)
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._next_number = 0

    async def live(self) -> None:
        if self.board.is_calm:
            self._acks = -1  # who does not wait for the replicas may fill a narrow network for ever
        random = self.random
        settings = self.host.settings()
        if not self._is_idempotent:
            settings["retries"] = 0
        watches: list[asyncio.Task[None]] = []
        async with Producer(
            acks="all" if self._acks == -1 else str(self._acks),
            enable_idempotence=self._is_idempotent,
            linger_ms=random.choice((0, 5, 50)),
            batch_size=random.choice((200, 1000, 16_384)),
            delivery_timeout_ms=settings["request_timeout_ms"] + 50 + random.choice((2000, 30_000)),
            max_block_ms=60_000,
            compression_type=random.choice(("none", "gzip")),
            **settings,
        ) as producer:
            while self.goes_on:
                await self.think()
                watches = [task for task in watches if not task.done()]
                watches += await self._burst(producer)
            await asyncio.gather(*watches)

    def wanted_topics(self) -> list[Topic]:
        return self.topics()

    async def _burst(self, producer: Producer) -> list[asyncio.Task[None]]:
        topic = self.random.choice(self.wanted_topics())
        tasks = []
        for _ in range(self.random.randint(1, BURST_MAX)):
            batch = self._make(self.random.choice(topic.partition_ids()))
            self.board.history.tell(ProduceAsked(batch=batch))
            try:
                future = await producer.send(
                    topic.name,
                    batch.values[0] or None,
                    key=batch.keys[0] if batch.keys else None,
                    partition=batch.partition_id.partition,
                )
            except KafkaError:
                self.board.history.tell(ProduceGivenUp(batch=batch))
            else:
                tasks.append(self.spawn(self._watch(batch, future)))
        return tasks

    def _make(self, partition_id: PartitionId) -> Batch:
        number, self._next_number = self._next_number, self._next_number + 1
        return Batch(
            partition_id=partition_id,
            writer=self.life_name,
            first_number=number,
            values=(self.value(number, partition_id),),
            keys=self.keys(partition_id),
            acks=self._acks,
            base_sequence=number if self._is_idempotent else -1,
        )

    def value(self, number: int, partition_id: PartitionId) -> bytes:
        size_bytes = self.random.randint(1, self.board.habits.value_bytes_max)
        return stamped(self.life_name, number, partition_id, size_bytes)

    def keys(self, _partition_id: PartitionId) -> tuple[bytes, ...]:
        """None."""
        return ()

    async def _watch(self, batch: Batch, future: RecordFuture) -> None:
        try:
            written = await future
        except KafkaError:
            self.board.history.tell(ProduceGivenUp(batch=batch))
            return
        self.progress += 1
        if batch.acks == 0:
            self.board.history.tell(ProduceGivenUp(batch=batch))
        else:
            self.board.history.tell(ProduceAcknowledged(batch=batch, base_offset=written.offset))


class KeyedApplication(ProducingApplication):
    """Keys that it writes again and again, and takes back with tombstones.

    Always holds: a key belongs to one life and one partition, so that all that was written to it has one order.
    """

    def __init__(self, host: Host, board: Board) -> None:
        super().__init__(host, board, acks=-1, is_idempotent=True)

    def wanted_topics(self) -> list[Topic]:
        return list(self.board.tables.values())

    def keys(self, partition_id: PartitionId) -> tuple[bytes, ...]:
        number = self.random.randrange(KEYS_PER_PARTITION)
        return (f"{self.life_name}-{partition_id.partition}-{number}".encode(),)

    def value(self, number: int, partition_id: PartitionId) -> bytes:
        return b"" if self.random.random() < TOMBSTONE_RATE else super().value(number, partition_id)
