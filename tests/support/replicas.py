"""Partitions for tests of replication: real ones, over logs in memory, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

from peers import FakeCluster
from supervision import NotedSupervisor

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.log.log import Log
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.record_batch import Record, encode_batch
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.replicas.partition import Partition
from barnabas.types import TopicPartition


class Timer:
    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock:
    def __init__(self) -> None:
        self.ms = 0.0
        self._timers: list[Timer] = []

    def monotonic_ms(self) -> float:
        return self.ms

    def now_ms(self) -> int:
        return int(self.ms)

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.ms + delay_ms, callback)
        self._timers.append(timer)
        return timer

    async def sleep(self, delay_ms: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.call_later(delay_ms, lambda: None if done.done() else done.set_result(None))
        await done

    async def advance(self, wait_ms: float) -> None:
        """Time passes, and all that is due happens."""
        self.ms += wait_ms
        due = [timer for timer in self._timers if timer.due_ms <= self.ms]
        self._timers = [timer for timer in self._timers if timer.due_ms > self.ms]
        for timer in sorted(due, key=lambda each: each.due_ms):
            if not timer.is_cancelled:
                timer.callback()
        await settled()


async def settled() -> None:
    for _turn in range(10):
        await asyncio.sleep(0)


def partition(
    number: int = 0,
    *,
    clock: ManualClock,
    node_id: int = 1,
    leader: int = 1,
    in_sync: tuple[int, ...] = (1, 2, 3),
    leader_epoch: int = 1,
    cluster: FakeCluster | None = None,
) -> Partition:
    cluster = cluster or FakeCluster()
    cluster.node_id = node_id
    made = Partition(
        name=TopicPartition("t", number),
        topic_id=b"t" * 16,
        log=Log.open(MemoryDisk(), f"t-{number}", TopicConfig({}, BrokerConfig({})), 0),
        high_watermark=0,
        cluster=cluster,
        runtime=SimpleNamespace(clock=clock),  # type: ignore[arg-type]
        supervisor=NotedSupervisor(clock),
    )
    made.apply(image(leader=leader, in_sync=in_sync, leader_epoch=leader_epoch))
    return made


def image(
    *, leader: int, in_sync: tuple[int, ...] = (1, 2, 3), leader_epoch: int = 1, epoch: int = 1
) -> PartitionImage:
    return PartitionImage((1, 2, 3), in_sync, leader, leader_epoch, epoch, (bytes(16),) * 3)


def batch(count: int = 1, base_offset: int = 0, leader_epoch: int = 1) -> memoryview:
    records = [Record(base_offset + number, 1, None, b"x", []) for number in range(count)]
    return memoryview(bytearray(encode_batch(records, base_offset=base_offset, leader_epoch=leader_epoch)))
