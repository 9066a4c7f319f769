"""A shard at work: loading, appending, answering at commit, timers, the end. Disk, clock and syncs are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

import pytest
from controllers import Offload, settle
from peers import FakeCluster
from supervision import NotedSupervisor

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.errors import ErrorCode
from barnabas.groups.group import Surroundings
from barnabas.groups.offsets import commit_record
from barnabas.groups.outcome import Client
from barnabas.groups.records import encode
from barnabas.groups.settings import GroupSettings
from barnabas.groups.topics import NoTopics
from barnabas.log.append import AppendInfo, AppendOrigin
from barnabas.log.log import Log
from barnabas.metadata.image import PartitionImage
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages.delete_groups import DeletableGroupResult
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from barnabas.protocol.record_batch import Record, encode_batch, read_header, read_headers
from barnabas.protocol.record_filter import empty_batch
from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.coordinators import coordinator_shard
from barnabas.server.coordinators.group_shard import LedShard, ShardState
from barnabas.server.replicas.partition import Partition
from barnabas.types import TopicPartition

CALLER = Client(9, "test", "/127.0.0.1")
WALL_MS = 1_700_000_000_000


class ManualClock:
    """Moves when it is told to, and runs on the way what is due."""

    def __init__(self) -> None:
        self.milliseconds = 0.0
        self.timers: list[tuple[float, int, ManualTimer]] = []
        self.sleeps = 0

    def now_ms(self) -> int:
        return WALL_MS + int(self.milliseconds)

    def monotonic_ms(self) -> float:
        return self.milliseconds

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer(callback)
        heappush(self.timers, (self.milliseconds + delay_ms, len(self.timers), timer))
        return timer

    async def sleep(self, delay_ms: float) -> None:
        self.sleeps += 1
        await asyncio.sleep(0)

    def advance(self, delay_ms: float) -> None:
        end = self.milliseconds + delay_ms
        while self.timers and self.timers[0][0] <= end:
            due, _number, timer = heappop(self.timers)
            self.milliseconds = max(self.milliseconds, due)
            if timer.callback is not None:
                timer.callback()
        self.milliseconds = end

    def waiting(self) -> int:
        return sum(timer.callback is not None for _due, _number, timer in self.timers)


class ManualTimer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


LEADING = PartitionImage(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(bytes(16),))
FOLLOWING = LEADING._replace(leader=2, leader_epoch=1, partition_epoch=1)


class Bench:
    """One shard over a real partition and log."""

    def __init__(self, disk: MemoryDisk | None = None, **topic: str) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = ManualClock()
        self.offload = Offload()
        self.config = BrokerConfig({"group.initial.rebalance.delay.ms": "0"})
        settings = {"cleanup.policy": "compact", **{name.replace("_", "."): value for name, value in topic.items()}}
        log = Log.open(self.disk, "/data/__consumer_offsets-0", TopicConfig(settings, self.config), WALL_MS)
        self.runtime = Runtime(
            clock=self.clock,
            disk=self.disk,
            network=None,  # type: ignore[arg-type]
            random=Random(3),
            offload=self.offload,
            background=None,  # type: ignore[arg-type]
        )
        self.partition = Partition(
            name=TopicPartition("__consumer_offsets", 0),
            topic_id=bytes(16),
            log=log,
            high_watermark=0,
            cluster=FakeCluster(),
            runtime=self.runtime,
            supervisor=NotedSupervisor(self.clock),
        )
        self.partition.apply(LEADING)
        self.shard = LedShard(
            partition=self.partition,
            surroundings=Surroundings(
                settings=GroupSettings.of(self.config), topics=NoTopics(), random=self.runtime.random
            ),
            config=self.config,
            runtime=self.runtime,
        )

    async def loaded(self) -> Bench:
        await self.shard.load()
        assert self.shard.state is ShardState.ACTIVE
        return self

    def commit(self, offset: int, *, group: str = "g", partitions: int = 1) -> Any:
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                        for index in range(partitions)
                    ],
                )
            ],
        )
        return self.shard.submit(
            lambda shard, pending, now: shard.offset_commit(request, CALLER, pending, now), OffsetCommitFailed
        )

    def fetch(self, *, group: str = "g", stable: bool = False) -> Any:
        request = OffsetFetchRequestGroup(group_id=group, topics=None)
        return self.shard.submit(
            lambda shard, pending, _now: shard.offset_fetch(request, pending, require_stable=stable),
            lambda error: OffsetFetchResponseGroup(group_id=group, error_code=error),
        )

    def fetched(self, *, stable: bool = False) -> dict[int, tuple[int, int]]:
        response = self.fetch(stable=stable)
        assert response.error_code == 0
        return {
            each.partition_index: (each.committed_offset, each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }

    def join(self, member_id: str = "", session_ms: int = 10_000) -> Any:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=20_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range")],
        )
        return self.shard.submit(
            lambda shard, pending, now: shard.join(request, CALLER, pending, now), OffsetCommitFailed
        )

    def batches(self) -> int:
        found = self.partition.log.read(0, 1 << 30, self.partition.log.log_end_offset)
        assert found is not None
        return len(list(read_headers(memoryview(found.read()))))


class OffsetCommitFailed(OffsetCommitResponse):
    """What the handler makes of an error."""

    __slots__ = ("error_code",)

    def __init__(self, error: ErrorCode) -> None:
        super().__init__()
        self.error_code = error


def run(test: Any) -> None:
    asyncio.run(asyncio.wait_for(test, 30))


# Working


def test_an_answer_needs_no_future_where_all_is_committed() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        assert bench.commit(5).topics[0].partitions[0].error_code == 0
        assert bench.fetched() == {0: (5, 0)}
        assert bench.partition.log.log_end_offset == 1

    run(test())


def test_a_new_group_is_in_the_log_before_its_member_is_answered() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        assert bench.join().error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert bench.partition.log.log_end_offset == 1

    run(test())


def test_what_cannot_be_appended_does_not_happen(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = await Bench(max_message_bytes="300").loaded()
        assert bench.commit(5).topics[0].partitions[0].error_code == 0
        assert bench.commit(6, partitions=20).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert bench.fetched() == {0: (5, 0)}
        assert bench.join().error_code == ErrorCode.MEMBER_ID_REQUIRED

    run(test())
    assert "MESSAGE_TOO_LARGE" in caplog.text


def test_a_group_that_cannot_be_written_does_not_exist(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        refused = AppendInfo.failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        bench.partition.append = lambda *_arguments: refused  # type: ignore[method-assign]
        assert bench.join().error_code == ErrorCode.NOT_COORDINATOR
        assert bench.shard.shard.groups == {}

    run(test())
    assert "NOT_LEADER_OR_FOLLOWER" in caplog.text


def test_a_shard_whose_broker_has_no_lease_answers_nothing() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        assert bench.commit(5).topics[0].partitions[0].error_code == 0
        bench.partition._cluster.holds_lease = False  # type: ignore[misc]
        assert bench.fetch().error_code == ErrorCode.NOT_COORDINATOR
        assert bench.commit(6).error_code == ErrorCode.NOT_COORDINATOR
        bench.partition._cluster.holds_lease = True  # type: ignore[misc]
        assert bench.fetched() == {0: (5, 0)}

    run(test())


def test_tombstones_go_into_as_many_batches_as_they_need() -> None:
    async def test() -> None:
        bench = await Bench(max_message_bytes="2000").loaded()
        for number in range(20):
            request_partitions = 10
            records = [
                commit_record("g", f"topic{number}", index, offset=1, commit_timestamp_ms=1)
                for index in range(request_partitions)
            ]
            for offset, record in enumerate(records):
                bench.shard.shard.apply(record, offset)
        before = bench.partition.log.log_end_offset
        result = bench.shard.submit(
            lambda shard, pending, _now: shard.delete("g", pending),
            lambda error: DeletableGroupResult(group_id="g", error_code=error),
        )
        assert isinstance(result, DeletableGroupResult)
        assert result.error_code == 0
        assert bench.partition.log.log_end_offset - before == 201
        assert 2 < bench.batches() < 20
        assert bench.shard.shard.groups == {}
        assert len(bench.shard.shard.offsets) == 0

    run(test())


# Commitment


def test_an_answer_waits_for_the_sync_and_so_do_those_decided_upon_it() -> None:
    async def test() -> None:
        bench = await Bench(flush_messages="1").loaded()
        bench.offload.hold = True
        committed = bench.commit(5)
        fetched = bench.fetch()
        await settle()
        assert not committed.done()
        assert not fetched.done(), "it has seen an offset that may yet be lost"
        bench.offload.release()
        assert (await committed).topics[0].partitions[0].error_code == 0
        assert (await fetched).topics[0].partitions[0].committed_offset == 5
        assert bench.fetched() == {0: (5, 0)}

    run(test())


def test_nobody_waits_for_a_commit_for_ever() -> None:
    async def test() -> None:
        bench = await Bench(flush_messages="1").loaded()
        bench.offload.hold = True
        committed = bench.commit(5)
        await settle()
        bench.clock.advance(4_999)
        assert not committed.done()
        bench.clock.advance(1)
        assert (await committed).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        bench.offload.release()
        await settle()
        assert bench.shard.state is ShardState.ACTIVE
        assert bench.fetched() == {0: (5, 0)}, "it came late, and counts"

    run(test())


def test_a_failed_sync_ends_the_shard(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bench = await Bench(flush_messages="1").loaded()
        asked = bench.join()
        member_id = (await asked).member_id
        waiting = bench.join(member_id)

        def broken(_function: Callable[[], object]) -> Any:
            raise OSError("the platter is gone")

        bench.partition._runtime = Runtime(
            clock=bench.clock,
            disk=bench.disk,
            network=None,  # type: ignore[arg-type]
            random=Random(3),
            offload=broken,
            background=None,  # type: ignore[arg-type]
        )
        committed = bench.commit(5, group="other")
        assert (await committed).error_code == ErrorCode.NOT_COORDINATOR
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert bench.shard.state is ShardState.CLOSED
        assert bench.commit(6).error_code == ErrorCode.NOT_COORDINATOR
        assert bench.clock.waiting() == 0

    run(test())


# Time


def test_one_timer_serves_the_whole_shard() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        first = bench.join().member_id
        second = bench.join(session_ms=6_000).member_id
        joins = [bench.join(first), bench.join(second, session_ms=6_000)]
        assert bench.clock.waiting() == 1
        bench.clock.advance(0)
        assert [(await join).generation_id for join in joins] == [1, 1]
        assert bench.clock.waiting() == 1
        bench.clock.advance(5_999)
        group = bench.shard.shard.groups["g"]
        assert group.state_name == "CompletingRebalance"
        bench.clock.advance(1)
        assert group.state_name == "PreparingRebalance"
        bench.clock.advance(40_000)
        assert group.is_empty
        assert bench.clock.waiting() == 1, "old offsets are looked for now and then"

    run(test())


def test_closing_sends_everyone_away() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        member_id = bench.join().member_id
        waiting = bench.join(member_id)
        bench.shard.close()
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert bench.join().error_code == ErrorCode.NOT_COORDINATOR
        assert bench.clock.waiting() == 0

    run(test())


def test_a_client_that_has_gone_is_not_answered() -> None:
    async def test() -> None:
        bench = await Bench().loaded()
        member_id = bench.join().member_id
        waiting = bench.join(member_id)
        waiting.cancel()
        bench.clock.advance(0)
        assert bench.shard.shard.groups["g"].state_name == "CompletingRebalance"

    run(test())


# Loading


def test_a_log_is_loaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(coordinator_shard, "LOAD_SLICE_BYTES", 1_000)
        first = await Bench().loaded()
        for number in range(100):
            first.commit(number, group=f"group{number}", partitions=2)
        bench = Bench(first.disk)
        assert bench.commit(1).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        load = asyncio.ensure_future(bench.shard.load())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert bench.fetch().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.shard.run(lambda shard: shard.topics_deleted(["nothing"]))
        await load
        assert bench.clock.sleeps > 10
        assert bench.shard.state is ShardState.ACTIVE
        assert bench.shard.shard.groups.keys() == first.shard.shard.groups.keys()
        assert len(bench.shard.shard.offsets) == 200

    run(test())


def test_topics_deleted_while_it_loads() -> None:
    async def test() -> None:
        first = await Bench().loaded()
        first.commit(5, partitions=3)
        bench = Bench(first.disk)
        bench.shard.run(lambda shard: shard.topics_deleted(["t"]))
        await bench.loaded()
        assert bench.fetched() == {}
        assert len((await Bench(first.disk).loaded()).shard.shard.offsets) == 0

    run(test())


def test_loading_ends_where_the_shard_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(coordinator_shard, "LOAD_SLICE_BYTES", 200)
        first = await Bench().loaded()
        for number in range(50):
            first.commit(number)
        bench = Bench(first.disk)
        load = asyncio.ensure_future(bench.shard.load())
        await asyncio.sleep(0)
        bench.shard.close()
        await load
        assert bench.shard.state is ShardState.CLOSED
        assert bench.clock.waiting() == 0

    run(test())


def transactional(bench: Bench, producer_id: int, *offsets: int) -> None:
    records = [
        Record(number, 1, *encode(commit_record("g", "t", number, offset=offset, commit_timestamp_ms=1)), [])
        for number, offset in enumerate(offsets)
    ]
    batch = encode_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=True)
    info = bench.partition.append(memoryview(batch), -1, AppendOrigin.COORDINATOR)
    assert info.error == ErrorCode.NONE


def end(bench: Bench, producer_id: int, *, committed: bool) -> None:
    batch = encode_transaction_marker(
        TransactionMarker(committed, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1
    )
    assert bench.partition.append(memoryview(batch), -1, AppendOrigin.COORDINATOR).error == ErrorCode.NONE


def test_offsets_of_transactions() -> None:
    async def test() -> None:
        first = await Bench().loaded()
        first.commit(1, partitions=3)
        transactional(first, 7, 70, 71)
        transactional(first, 8, 80)
        end(first, 8, committed=False)
        transactional(first, 9, 90)
        end(first, 9, committed=True)
        first.commit(2)
        bench = await Bench(first.disk).loaded()
        assert bench.fetched() == {0: (2, 0), 1: (1, 0), 2: (1, 0)}
        unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert bench.fetched(stable=True) == {0: (-1, unstable), 1: (-1, unstable), 2: (1, 0)}
        end(first, 7, committed=True)
        bench = await Bench(first.disk).loaded()
        assert bench.fetched(stable=True) == {0: (2, 0), 1: (71, 0), 2: (1, 0)}, "the later word on 0 stays"

    run(test())


def test_records_of_a_kind_that_is_unknown_are_left_alone() -> None:
    async def test() -> None:
        first = await Bench().loaded()
        first.commit(1)
        batch = encode_batch([Record(0, 1, b"\x7f\x00key", b"value", [])])
        first.partition.append(memoryview(batch), -1, AppendOrigin.COORDINATOR)
        assert (await Bench(first.disk).loaded()).fetched() == {0: (1, 0)}

    run(test())


def test_a_batch_of_which_compaction_left_the_header_alone_is_passed_over() -> None:
    """It is as long as the overhead of a batch, to the byte, and was taken for half a batch."""

    async def test() -> None:
        first = await Bench().loaded()
        first.commit(1)
        log = first.partition.log
        whole = encode_batch([Record(log.log_end_offset, 1, b"k", b"v", [])], base_offset=log.log_end_offset)
        log.roll(WALL_MS)
        log.append_as_follower(memoryview(empty_batch(read_header(whole))), WALL_MS)
        assert (await Bench(first.disk).loaded()).fetched() == {0: (1, 0)}

    run(test())


@pytest.mark.parametrize(
    ("key", "value"), [(None, b"v"), (b"\x00", b"v"), (b"\x00\x01\x7f", b"v"), (b"\x00\x02\x00\x01g", b"\x7f\x00")]
)
def test_a_damaged_record_is_not_passed_over(key: bytes | None, value: bytes) -> None:
    async def test() -> None:
        bench = Bench()
        bench.partition.append(memoryview(encode_batch([Record(0, 1, key, value, [])])), -1, AppendOrigin.COORDINATOR)
        with pytest.raises(DecodeError):
            await bench.shard.load()
        assert bench.shard.state is ShardState.LOADING

    run(test())


def test_records_are_packed_as_the_settings_say() -> None:
    async def test() -> None:
        first = Bench()
        first.config = BrokerConfig({"offsets.topic.compression.codec": "4"})
        first.shard._config = first.config
        await first.loaded()
        first.commit(5, partitions=50)
        found = first.partition.log.read(0, 1 << 20, 50)
        assert found is not None
        assert [header.codec for _position, header in read_headers(memoryview(found.read()))] == [4]
        assert len((await Bench(first.disk).loaded()).fetched()) == 50

    run(test())
