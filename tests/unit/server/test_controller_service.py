"""The controller at work: what it writes at each start, when a decision counts, and what a broken disk does to it."""

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest
from controllers import DIRECTORY, DIRECTORY_ID, ENDPOINT, Controller, settle

from barnabas.consensus.messages import LogEnd, VoteRequest
from barnabas.consensus.voters import ReplicaKey
from barnabas.controller import features
from barnabas.controller.decision import Decision
from barnabas.errors import ErrorCode
from barnabas.log.checkpoint import QUORUM_STATE_FILE_NAME, decode_quorum_state
from barnabas.metadata.image import EMPTY, MetadataImage, ResourceType
from barnabas.protocol.message import Message
from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
from barnabas.protocol.messages.config_record import ConfigRecord
from barnabas.protocol.messages.partition_record import PartitionRecord
from barnabas.protocol.messages.topic_record import TopicRecord
from barnabas.protocol.metadata_records import decode_record
from barnabas.protocol.record_batch import BatchHeader, decode_records, read_header
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.server.controller.controller_service import INHERITED_RECORDS_MIN
from barnabas.server.quorum.metadata_log import MetadataLog, MetadataUnavailable
from barnabas.simulation.disk import SimulatedDisk, Survival

LOG = f"{DIRECTORY}/__cluster_metadata-0/00000000000000000000.log"


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def topic_records(name: str) -> list[Message]:
    topic_id = name.encode().ljust(16, b".")
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[1],
        isr=[1],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[DIRECTORY_ID],
    )
    return [TopicRecord(name=name, topic_id=topic_id), partition]


def create(name: str) -> Callable[[MetadataImage, int], Decision[str]]:
    def decide(image: MetadataImage, next_offset: int) -> Decision[str]:
        if name in image.topics_by_name:
            return Decision([], f"{name} exists")
        return Decision(topic_records(name), f"{name} at {next_offset}")

    return decide


def batches(data: bytes) -> list[tuple[int, int, bool, list[str]]]:
    """Base offset, leader epoch, control, and names of the records of each batch."""
    view, position, found = memoryview(data), 0, []
    while position < len(view):
        header = read_header(view, position)
        records = [] if header.is_control else decode_records(view, position)
        names = [type(decode_record(record.value)).__name__ for record in records]
        found.append((header.base_offset, header.leader_epoch, header.is_control, names))
        position += header.size_bytes
    return found


# Start


def test_the_first_start_writes_what_kafka_writes() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        bootstrap = ["BeginTransactionRecord", *["FeatureLevelRecord"] * 6, "ConfigRecord", "EndTransactionRecord"]
        assert batches(controller.disk.read_bytes(LOG)) == [
            (0, 1, True, []),
            (1, 1, False, bootstrap),
            (10, 1, False, ["RegisterControllerRecord"]),
            (11, 1, False, ["RegisterBrokerRecord"]),
            (12, 1, False, ["BrokerRegistrationChangeRecord"]),
        ]
        image = controller.image
        assert image.offset == 12
        assert image.features == features.AT_FORMAT
        assert image.brokers[1].active
        assert image.brokers[1].epoch == controller.broker_epoch == 11
        assert image.brokers[1].endpoints == (ENDPOINT,)
        assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
        assert controller.changes[-1][1] is image
        assert [delta.features_changed for delta, _ in controller.changes][:2] == [True, False]

    run(test)


def test_the_leader_change_is_kafkas_byte_for_byte() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        head = bytearray(controller.disk.read_bytes(LOG)[:91])
        for start, end in ((17, 21), (27, 43)):  # CRC and timestamps
            head[start:end] = bytes(end - start)
        assert head.hex() == (
            "00000000000000000000004f000000010200000000002000000000" + "00" * 16 + "ffffffffffffffffffffffffffff"
            "000000013a0000000800000002260000000000010200000001000200000001000000"
        )

    run(test)


def test_quorum_state_names_the_leader_and_its_epoch() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        state = decode_quorum_state(controller.disk.read_bytes(f"{DIRECTORY}/__cluster_metadata-0/quorum-state"))
        assert (state.leader_id, state.leader_epoch, state.voters, state.version) == (1, 1, (1,), 0)

    run(test)


def test_a_restart_reads_a_long_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader read it to know what it builds upon, and once more when that was committed."""
    read: list[int] = []
    read_batches = MetadataLog.batches

    def watched(self: MetadataLog, start: int, end: int) -> Iterator[tuple[BatchHeader, list[Message]]]:
        for header, records in read_batches(self, start, end):
            read.append(len(records))
            yield header, records

    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk).start()
        for number in range(INHERITED_RECORDS_MIN):
            await first.service.submit(create(f"t{number}"))
        await first.service.stop()
        monkeypatch.setattr(MetadataLog, "batches", watched)
        second = await Controller(disk).start()
        assert first.image.offset < sum(read) <= second.image.offset + 1
        assert list(second.image.topics_by_name) == list(first.image.topics_by_name)
        told = [topic.topic.name for delta, _image in second.changes for topic in delta.topics_changed]
        assert sorted(set(told)) == sorted(first.image.topics_by_name)

    run(test)


def test_a_restart_replays_into_the_same_cluster_in_a_new_epoch() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk).start()
        assert await first.service.submit(create("orders")) == "orders at 13"
        await first.service.stop()
        second = await Controller(disk).start()
        assert second.service.quorum.epoch == 2
        assert list(second.image.topics_by_name) == ["orders"]
        assert second.image.features == first.image.features
        assert second.image.configs == first.image.configs
        before, after = first.image.partition("orders", 0), second.image.partition("orders", 0)
        assert before is not None
        assert after is not None
        # As Kafka: the leader went with its old incarnation, and came with the new one.
        assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 2)
        assert second.image.brokers[1].epoch > first.image.brokers[1].epoch
        assert second.image.brokers[1].incarnation_id != first.image.brokers[1].incarnation_id
        # Only the first start of a cluster writes its features.
        names = [name for _, epoch, _, names in batches(disk.read_bytes(LOG)) if epoch == 2 for name in names]
        assert "FeatureLevelRecord" not in names
        assert [change.topic.name for change in second.changes[0][0].topics_changed] == ["orders"]

    run(test)


def test_an_epoch_is_never_led_twice_even_if_nothing_was_written_in_it() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        await (await Controller(disk).start()).service.stop()
        state = disk.read_bytes(f"{DIRECTORY}/__cluster_metadata-0/quorum-state")
        disk.write_atomically(
            f"{DIRECTORY}/__cluster_metadata-0/quorum-state", state.replace(b'"leaderEpoch":1', b'"leaderEpoch":41')
        )
        assert (await Controller(disk).start()).service.quorum.epoch == 42

    run(test)


def test_elections_that_are_forgotten_go_on_from_the_epoch_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk).start()
        await first.service.submit(create("t"))
        epoch = first.service.quorum.epoch
        await first.service.stop()
        disk.remove(f"{DIRECTORY}/__cluster_metadata-0/{QUORUM_STATE_FILE_NAME}")
        again = await Controller(disk).start()
        assert again.service.quorum.epoch > epoch
        assert "t" in again.service.image.topics_by_name
        assert QUORUM_STATE_FILE_NAME in caplog.text

    run(test)


def test_what_a_recovery_cuts_of_the_metadata_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk).start()
        await first.service.stop()
        size_bytes = len(disk.read_bytes(LOG))
        disk.open(LOG).write(size_bytes, bytes(70))
        Controller(disk)
        assert "__cluster_metadata-0: cut 70 bytes" in caplog.text

    run(test)


def test_a_transaction_that_its_leader_left_open_is_aborted() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        first = await Controller(disk).start()
        await first.service.submit(
            lambda image, _offset: Decision([BeginTransactionRecord(name="half"), *topic_records("lost")], None)
        )
        await first.service.stop()
        for _ in range(2):  # and the log replays ever after
            again = await Controller(disk).start()
            assert "lost" not in again.image.topics_by_name
            assert await again.service.submit(create(f"kept-{again.service.quorum.epoch}"))
            await again.service.stop()
        names = [name for *_, names in batches(disk.read_bytes(LOG)) for name in names]
        assert names.count("AbortTransactionRecord") == 1
        assert list(again.image.topics_by_name) == ["kept-2", "kept-3"]

    run(test)


def test_a_log_that_was_cut_behind_a_snapshot_is_refused() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        await (await Controller(disk).start()).service.stop()
        data = disk.read_bytes(LOG)
        first_size = read_header(memoryview(data), 0).size_bytes
        disk.write_atomically(LOG.replace("0.log", "1.log"), data[first_size:])
        for name in disk.list_directory(f"{DIRECTORY}/__cluster_metadata-0"):
            if name.startswith("00000000000000000000"):
                disk.remove(f"{DIRECTORY}/__cluster_metadata-0/{name}")
        with pytest.raises(MetadataUnavailable, match="snapshot"):
            await Controller(disk).start()

    run(test)


def test_the_only_voter_may_be_named() -> None:
    async def test() -> None:
        controller = Controller(MemoryDisk(), overrides={"controller.quorum.voters": "1@localhost:9093"})
        assert (await controller.start()).image.brokers[1].active

    run(test)


# When a decision counts


def test_nothing_is_told_before_it_is_synced() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        controller.changes.clear()
        controller.offload.hold = True
        submitted = asyncio.ensure_future(controller.service.submit(create("orders")))
        await settle()
        assert not submitted.done()
        assert "orders" not in controller.image.topics_by_name
        assert not controller.changes
        assert controller.service.high_watermark < controller.service.log.end_offset
        controller.offload.release()
        assert await submitted == "orders at 13"
        assert "orders" in controller.image.topics_by_name
        assert [change.topic.name for delta, _ in controller.changes for change in delta.topics_changed] == ["orders"]
        assert controller.service.high_watermark == controller.service.log.end_offset

    run(test)


def test_a_decision_sees_those_before_it_and_waits_for_them() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        controller.offload.hold = True
        first = asyncio.ensure_future(controller.service.submit(create("orders")))
        await settle()
        again = asyncio.ensure_future(controller.service.submit(create("orders")))
        await settle()
        assert not again.done(), "it answers from what may yet be lost"
        controller.offload.release()
        assert await first == "orders at 13"
        assert await again == "orders exists"

    run(test)


def test_a_decision_without_records_waits_for_what_its_leader_inherited() -> None:
    """What the leader before it had appended may yet be lost; an answer from it would be of what never was."""

    async def test() -> None:
        disk = MemoryDisk()
        await (await Controller(disk).start()).service.submit(create("orders"))
        controller = Controller(disk)
        controller.offload.hold = True
        controller.service.start()
        again = asyncio.ensure_future(controller.service.submit(create("orders")))
        await settle()
        assert not again.done(), "it answers from what may yet be lost"
        controller.offload.release()
        assert await again == "orders exists"

    run(test)


def test_a_sync_speaks_only_for_what_was_there_when_it_began() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        controller.offload.hold = True
        first = asyncio.ensure_future(controller.service.submit(create("first")))
        await settle()
        second = asyncio.ensure_future(controller.service.submit(create("second")))
        await settle()
        controller.offload.release()
        await settle()
        assert first.done()
        assert not second.done()
        assert list(controller.image.topics_by_name) == ["first"]
        controller.offload.release()
        assert await second == "second at 15"

    run(test)


def test_one_sync_serves_all_that_came_meanwhile_and_changes_are_told_in_order() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        controller.changes.clear()
        controller.offload.hold = True
        controller.offload.calls = 0
        submitted = [asyncio.ensure_future(controller.service.submit(create("t0")))]
        await settle()
        submitted += [asyncio.ensure_future(controller.service.submit(create(f"t{number}"))) for number in range(1, 20)]
        await settle()
        controller.offload.hold = False
        controller.offload.release()
        await asyncio.gather(*submitted)
        assert controller.offload.calls == 2
        told = [change.topic.name for delta, _ in controller.changes for change in delta.topics_changed]
        assert told == [f"t{number}" for number in range(20)]
        offsets = [image.offset for _, image in controller.changes]
        assert offsets == sorted(offsets)
        assert controller.image is controller.changes[-1][1]

    run(test)


def test_a_decision_without_records_writes_nothing() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        end_offset = controller.service.log.end_offset
        assert await controller.service.submit(lambda image, offset: Decision([], offset)) == end_offset
        assert controller.service.log.end_offset == end_offset

    run(test)


def test_one_who_stops_waiting_does_not_stop_the_decision() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        controller.offload.hold = True
        waiting = asyncio.ensure_future(controller.service.submit(create("orders")))
        await settle()
        waiting.cancel()
        await settle()
        controller.offload.release()
        await settle()
        assert "orders" in controller.image.topics_by_name

    run(test)


def test_stop_lets_what_is_pending_end() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        submitted = asyncio.ensure_future(controller.service.submit(create("orders")))
        await asyncio.sleep(0)
        await controller.service.stop()
        assert await submitted == "orders at 13"
        assert controller.service.failure is None
        with pytest.raises(MetadataUnavailable):
            await controller.service.submit(create("bills"))

    run(test)


# Broken disks


def test_a_full_disk_refuses_and_changes_nothing() -> None:
    async def test() -> None:
        disk = SimulatedDisk()
        controller = await Controller(disk).start()
        before = controller.service.log.end_offset
        disk.fail("write", error=errno.ENOSPC)
        with pytest.raises(MetadataUnavailable):
            await controller.service.submit(create("orders"))
        assert controller.service.log.end_offset == before
        assert controller.service.failure is None
        assert await controller.service.submit(create("orders")) == f"orders at {before}"

    run(test)


def test_a_failed_sync_ends_the_service() -> None:
    async def test() -> None:
        disk = SimulatedDisk()
        controller = await Controller(disk).start()
        disk.fail("sync")
        with pytest.raises(MetadataUnavailable):
            await controller.service.submit(create("orders"))
        assert "orders" not in controller.image.topics_by_name
        assert isinstance(controller.service.failure, OSError)
        assert controller.failures == [controller.service.failure]
        with pytest.raises(MetadataUnavailable):
            await controller.service.submit(create("bills"))

    run(test)


def test_respond_says_what_the_disk_did() -> None:
    async def test() -> None:
        disk = SimulatedDisk()
        controller = await Controller(disk).start()
        disk.fail("write", error=errno.ENOSPC)
        assert await controller.service.respond(create("orders"), str) == str(ErrorCode.KAFKA_STORAGE_ERROR)
        assert await controller.service.respond(create("orders"), str) == "orders at 13"

    run(test)


def test_a_broker_that_cannot_carry_out_a_change_ends_the_service() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()

        def fail(delta: object, image: object) -> None:
            raise OSError("no such device")

        controller.service._on_change = fail
        with pytest.raises(MetadataUnavailable):
            await controller.service.submit(create("orders"))
        assert len(controller.failures) == 1

    run(test)


def test_a_record_that_contradicts_the_image_never_reaches_the_log() -> None:
    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        await controller.service.submit(create("orders"))
        before = controller.service.log.end_offset
        with pytest.raises(Exception, match="exists"):
            await controller.service.submit(lambda image, _offset: Decision(topic_records("orders"), None))
        assert controller.service.log.end_offset == before

    run(test)


# Many records


def test_replay_crosses_the_reads_of_a_long_log() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        controller = await Controller(disk).start()
        for number in range(300):
            value = f"{number}".ljust(10_000, "x")
            record = ConfigRecord(resource_type=32, resource_name=f"g{number}", name="a", value=value)
            await controller.service.submit(lambda image, _offset, record=record: Decision([record], None))
        await controller.service.stop()
        assert len(disk.read_bytes(LOG)) > 2 << 20
        again = await Controller(disk).start()
        assert again.image.configs == controller.image.configs

    run(test)


def test_loss_of_power_at_start_leaves_a_log_that_starts() -> None:
    """Wherever the first start is cut, the second one makes a whole cluster."""

    async def test() -> None:
        left: list[SimulatedDisk] = []
        disk = SimulatedDisk()
        disk.on_operation = lambda kind: left.append(disk.image(Random(len(left)), Survival.SOME))
        await Controller(disk).start()
        for image_of_disk in left:
            again = await Controller(image_of_disk).start()
            assert again.image.features == features.AT_FORMAT
            assert again.image.brokers[1].active
            assert again.image is not EMPTY

    run(test)


def test_a_sync_that_began_in_an_earlier_epoch_counts_for_nothing() -> None:
    """What it synced may have been cut and written anew since. A seed lost a decision that had been acknowledged so."""

    async def test() -> None:
        controller = await Controller(MemoryDisk()).start()
        quorum = controller.service.quorum
        committed = quorum.high_watermark
        controller.offload.hold = True
        waiting = [asyncio.ensure_future(controller.service.submit(create(name))) for name in ("a", "b", "c")]
        await settle()
        quorum.receive_vote(VoteRequest(ReplicaKey(2), ReplicaKey(1), quorum.epoch + 1, LogEnd(0, 0), pre_vote=False))
        controller.service.log.truncate_to(committed)  # as whoever follows a leader without these
        quorum.raft._deadline_ms = 0.0
        quorum._tick()
        assert quorum.is_leader
        controller.offload.release()  # the sync of the epoch before
        await settle()
        assert quorum.high_watermark == committed
        controller.offload.hold = False
        controller.offload.release()
        await settle()
        assert quorum.high_watermark == controller.service.log.end_offset
        assert all(
            isinstance(each, MetadataUnavailable) for each in await asyncio.gather(*waiting, return_exceptions=True)
        )
        assert not controller.image.topics_by_name

    run(test)
