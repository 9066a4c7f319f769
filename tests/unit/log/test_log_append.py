"""Appending: what is refused with which error, what the log does to a batch, and when it rolls."""

import errno

import pytest
from log_fixtures import DIRECTORY, NOW_MS, append, batch, offset_for_timestamp, read_all, records, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.log import AppendOrigin, Log
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec
from barnabas.protocol.control_records import TransactionMarker, encode_transaction_marker
from barnabas.protocol.record_batch import (
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    Record,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk

HOUR_MS = 3_600_000


def new_log(**settings: object) -> Log:
    return Log.open(MemoryDisk(), DIRECTORY, topic_config(**settings), NOW_MS)


def refused(data: bytes | bytearray | memoryview, **settings: object) -> ErrorCode:
    """The error; the log must be as before."""
    log = new_log(**settings)
    append(log)
    size_bytes = log.size_bytes
    info = log.append_as_leader(memoryview(data), 0, NOW_MS)
    assert (log.log_end_offset, log.size_bytes) == (1, size_bytes) or info.error == ErrorCode.NONE
    return info.error


def patched(position: int, data: bytes, *, source: memoryview | None = None) -> memoryview:
    """A batch with some bytes of its header changed, and a CRC that matches them."""
    view = source if source is not None else batch(3)
    view[position : position + len(data)] = data
    view[17:21] = crc32c(view[21:]).to_bytes(4, "big")
    return view


def test_offsets_and_epoch_are_assigned_in_place() -> None:
    log = new_log()
    assert append(log, 3)[1:3] == (0, 3)
    data = batch(2)
    info = log.append_as_leader(data, 7, NOW_MS)
    assert (info.base_offset, info.end_offset, info.log_append_time_ms, info.log_start_offset) == (3, 5, -1, 0)
    assert not info.duplicate
    header = read_header(data, 0)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3, 4]
    assert log.leader_epochs.entries == [(0, 0), (7, 3)]


def test_bytes_that_may_not_be_written_to_are_copied() -> None:
    log = new_log()
    data = bytes(batch(2))
    assert log.append_as_leader(memoryview(data), 5, NOW_MS).error == ErrorCode.NONE
    assert data == bytes(batch(2))
    assert read_header(log.read(0, 1, 2).read()).leader_epoch == 5  # type: ignore[union-attr]


@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_back_as_they_went(codec: Codec) -> None:
    log = new_log()
    for first in (0, 5):
        log.append_as_leader(batch(5, codec=codec, first=first), 0, NOW_MS)
    expected = [(n, b"key-%06d" % n) for n in range(10)]
    assert [(record.offset, record.key) for record in read_all(log)] == expected


class TestRefusals:
    def test_nothing_at_all(self) -> None:
        assert refused(b"") == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60, 61, 100])
    def test_a_batch_cut_short(self, size: int) -> None:
        assert refused(batch(3)[:size]) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_message_sets(self, magic: int) -> None:
        message = bytes(8) + (26).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(21)
        assert refused(message) == ErrorCode.INVALID_RECORD

    def test_a_magic_of_the_future(self) -> None:
        data = batch(3)
        data[16] = 3
        assert refused(data) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [0, -1, 13, 48])
    def test_a_length_that_cannot_be(self, length: int) -> None:
        data = batch(3)
        data[8:12] = length.to_bytes(4, "big", signed=True)
        assert refused(data) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("position", [17, 20, 21, 40, 61, -1])
    def test_a_bit_that_flipped(self, position: int) -> None:
        data = batch(3)
        data[position] ^= 1
        assert refused(data) == ErrorCode.CORRUPT_MESSAGE

    def test_two_batches(self) -> None:
        assert refused(bytes(batch(1)) + bytes(batch(1))) == ErrorCode.INVALID_RECORD

    def test_remains_of_a_second_batch_are_dropped(self) -> None:
        log = new_log()
        for surplus in (b"x", bytes(batch(1))[:-1]):
            assert log.append_as_leader(memoryview(bytes(batch(1)) + surplus), 0, NOW_MS).error == ErrorCode.NONE
        assert len(read_all(log)) == 2
        assert log.size_bytes == 2 * len(batch(1))

    def test_garbage_behind_the_batch(self) -> None:
        assert refused(bytes(batch(1)) + bytes(100)) == ErrorCode.CORRUPT_MESSAGE

    def test_a_base_offset(self) -> None:
        assert refused(patched(0, (1).to_bytes(8, "big"))) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("count", [-1, 0, 2, 4])
    def test_a_count_that_differs_from_the_offsets(self, count: int) -> None:
        assert refused(patched(57, count.to_bytes(4, "big", signed=True))) == ErrorCode.INVALID_RECORD

    def test_negative_offsets(self) -> None:
        assert refused(patched(23, (-3).to_bytes(4, "big", signed=True))) == ErrorCode.INVALID_RECORD

    def test_control_records_of_a_client(self) -> None:
        assert refused(patched(21, CONTROL_BIT.to_bytes(2, "big"))) == ErrorCode.INVALID_RECORD

    def test_a_producer_without_sequence(self) -> None:
        data = memoryview(encode_batch(records(1), producer_id=5, producer_epoch=0, base_sequence=-1))
        assert refused(data) == ErrorCode.INVALID_RECORD

    def test_an_unknown_codec(self) -> None:
        assert refused(patched(21, (5).to_bytes(2, "big"))) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def test_too_large(self) -> None:
        size = len(batch(3))
        assert refused(batch(3), max_message_bytes=size) == ErrorCode.NONE
        assert refused(batch(3), max_message_bytes=size - 1) == ErrorCode.MESSAGE_TOO_LARGE

    def test_larger_than_a_segment(self) -> None:
        assert refused(batch(3), segment_bytes=len(batch(3)) - 1) == ErrorCode.RECORD_LIST_TOO_LARGE

    def test_a_stamp_that_only_the_broker_may_give(self) -> None:
        stamped = LOG_APPEND_TIME_BIT.to_bytes(2, "big")
        assert refused(patched(21, stamped), message_timestamp_type="LogAppendTime") == ErrorCode.INVALID_TIMESTAMP
        timeless = memoryview(encode_batch([Record(0, -1, b"k", b"v")]))
        assert refused(patched(21, stamped, source=timeless)) == ErrorCode.INVALID_TIMESTAMP

    @pytest.mark.parametrize("compression_type", ["producer", "gzip"])
    def test_a_stamp_where_the_topic_keeps_producers_time_is_taken_off(self, compression_type: str) -> None:
        log = new_log(compression_type=compression_type)
        data = patched(21, LOG_APPEND_TIME_BIT.to_bytes(2, "big"))
        assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.NONE
        stored = memoryview(log.read(0, 1, 3).read())  # type: ignore[union-attr]
        header = read_header(stored)
        assert not header.is_log_append_time
        assert crc_matches(stored, 0, header)
        assert [record.timestamp_ms for record in decode_records(stored)] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]

    def test_too_far_ahead(self) -> None:
        assert refused(batch(1, timestamp_ms=NOW_MS + HOUR_MS)) == ErrorCode.NONE
        assert refused(batch(1, timestamp_ms=NOW_MS + HOUR_MS + 1)) == ErrorCode.INVALID_TIMESTAMP
        late = batch(1, timestamp_ms=NOW_MS + HOUR_MS + 1)
        assert refused(late, message_timestamp_type="LogAppendTime") == ErrorCode.NONE

    def test_too_far_behind(self) -> None:
        settings = {"message_timestamp_before_max_ms": 1000}
        assert refused(batch(1, timestamp_ms=1)) == ErrorCode.NONE
        assert refused(batch(1, timestamp_ms=NOW_MS - 1000), **settings) == ErrorCode.NONE
        assert refused(batch(1, timestamp_ms=NOW_MS - 1001), **settings) == ErrorCode.INVALID_TIMESTAMP
        assert refused(batch(1, timestamp_ms=-1), **settings) == ErrorCode.NONE

    def test_the_records_at_fault_are_named(self) -> None:
        log = new_log(message_timestamp_before_max_ms=1000)
        mixed = [Record(0, NOW_MS, None, b"a"), Record(1, NOW_MS - 5000, None, b"b"), Record(2, NOW_MS, None, b"c")]
        info = log.append_as_leader(memoryview(encode_batch(mixed)), 0, NOW_MS)
        assert info.error == ErrorCode.INVALID_TIMESTAMP
        assert [index for index, _ in info.record_errors] == [1]

    def test_no_key_in_a_compacted_topic(self) -> None:
        log = new_log(cleanup_policy="compact")
        info = log.append_as_leader(memoryview(encode_batch([Record(0, NOW_MS, None, b"a")])), 0, NOW_MS)
        assert info.error == ErrorCode.INVALID_RECORD
        assert [index for index, _ in info.record_errors] == [0]
        append(log, 2)


def test_log_append_time() -> None:
    log = new_log(message_timestamp_type="LogAppendTime")
    info = append(log, 3, timestamp_ms=1, now_ms=NOW_MS + 77)
    assert info.log_append_time_ms == NOW_MS + 77
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS + 77] * 3
    found = offset_for_timestamp(log, NOW_MS)
    assert found is not None
    assert (found.timestamp_ms, found.offset) == (NOW_MS + 77, 0)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.LZ4])
def test_batches_are_packed_anew_where_the_topic_asks_for_it(codec: Codec) -> None:
    log = new_log(compression_type="zstd")
    log.append_as_leader(batch(5, codec=codec, size=500), 0, NOW_MS)
    stored = log.read(0, 1, 5).read()  # type: ignore[union-attr]
    assert read_header(stored).codec is Codec.ZSTD
    assert [record.key for record in decode_records(stored)] == [b"key-%06d" % n for n in range(5)]
    assert len(stored) < 500


def test_packing_anew_may_exceed_the_limit() -> None:
    log = new_log(compression_type="uncompressed", max_message_bytes=1000)
    info = log.append_as_leader(batch(5, codec=Codec.ZSTD, size=500), 0, NOW_MS)
    assert info.error == ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0


def test_records_that_cannot_be_unpacked_are_refused_where_they_must_be() -> None:
    broken = patched(21, int(Codec.ZSTD).to_bytes(2, "big"))
    assert refused(broken, compression_type="gzip") == ErrorCode.INVALID_RECORD


class TestProducers:
    def send(self, log: Log, sequence: int, count: int = 1, epoch: int = 0) -> tuple[ErrorCode, int, bool]:
        data = batch(count, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
        info = log.append_as_leader(data, 0, NOW_MS)
        return info.error, info.base_offset, info.duplicate

    def test_duplicates_are_answered_with_their_first_offsets(self) -> None:
        log = new_log()
        for sequence in range(6):
            assert self.send(log, sequence) == (ErrorCode.NONE, sequence, False)
        for sequence in range(1, 6):
            assert self.send(log, sequence) == (ErrorCode.NONE, sequence, True)
        assert self.send(log, 0)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.send(log, 7)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert log.log_end_offset == 6
        assert len(read_all(log)) == 6

    def test_old_epochs_are_fenced(self) -> None:
        log = new_log()
        assert self.send(log, 0, epoch=1)[0] == ErrorCode.NONE
        assert self.send(log, 1, epoch=0)[0] == ErrorCode.INVALID_PRODUCER_EPOCH
        assert self.send(log, 0, epoch=2)[0] == ErrorCode.NONE

    def test_a_refused_batch_leaves_no_trace(self) -> None:
        log = new_log(max_message_bytes=150)
        assert self.send(log, 0)[0] == ErrorCode.NONE
        data = batch(1, producer_id=9, producer_epoch=0, base_sequence=1, size=200)
        assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.MESSAGE_TOO_LARGE
        assert self.send(log, 1) == (ErrorCode.NONE, 1, False)

    def test_idle_producers_are_forgotten(self) -> None:
        log = new_log()
        self.send(log, 5)
        assert log.expire_producers(NOW_MS + 1000) == 0
        assert log.expire_producers(NOW_MS + 2 * 86_400_000) == 1
        assert self.send(log, 3) == (ErrorCode.NONE, 1, False)


class TestTransactions:
    def data(self, log: Log, producer_id: int, sequence: int) -> None:
        data = batch(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.NONE
        log.high_watermark = log.log_end_offset

    def end(self, log: Log, producer_id: int, *, committed: bool) -> None:
        marker = encode_transaction_marker(
            TransactionMarker(committed, 3), producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS
        )
        info = log.append_as_leader(memoryview(marker), 0, NOW_MS, AppendOrigin.COORDINATOR)
        assert info.error == ErrorCode.NONE, info
        log.high_watermark = log.log_end_offset

    def test_last_stable_offset_and_aborted_transactions(self) -> None:
        log = new_log()
        append(log)
        self.data(log, 1, 0)  # 1, 2
        self.data(log, 2, 0)  # 3, 4
        assert log.last_stable_offset == 1
        self.end(log, 1, committed=False)  # 5
        assert log.last_stable_offset == 3
        self.end(log, 2, committed=True)  # 6
        assert log.last_stable_offset == 7
        found = log.read(0, 1 << 20, log.last_stable_offset)
        assert found is not None
        assert log.aborted_transactions(0, found) == [(1, 1, 5, 3)]
        later = log.read(6, 1 << 20, log.last_stable_offset)
        assert later is not None
        assert log.aborted_transactions(6, later) == []

    def test_aborts_are_found_from_earlier_segments(self) -> None:
        log = new_log(segment_bytes=400, index_interval_bytes=50)
        self.data(log, 1, 0)
        for _ in range(20):
            append(log)
        self.end(log, 1, committed=False)
        assert len(log.segments) > 3
        found = log.read(0, 1 << 20, log.last_stable_offset)
        assert found is not None
        assert [aborted.producer_id for aborted in log.aborted_transactions(0, found)] == [1]

    def test_the_last_stable_offset_never_passes_the_watermark(self) -> None:
        log = new_log()
        info = log.append_as_leader(batch(3), 0, NOW_MS)
        assert info.end_offset == 3
        assert (log.high_watermark, log.last_stable_offset) == (0, 0)
        log.high_watermark = 2
        assert (log.high_watermark, log.last_stable_offset) == (2, 2)
        log.high_watermark = 1
        assert log.high_watermark == 2
        log.high_watermark = 99
        assert log.high_watermark == 3


class TestRolling:
    def test_by_size(self) -> None:
        size = len(batch(1))
        log = new_log(segment_bytes=3 * size)
        for _ in range(7):
            append(log)
        assert [(s.base_offset, s.size_bytes) for s in log.segments] == [(0, 3 * size), (3, 3 * size), (6, size)]

    def test_by_age_of_the_records(self) -> None:
        log = new_log(segment_ms=1000)
        for delta in (0, 1000, 1001, 1500, 2002):
            append(log, timestamp_ms=NOW_MS + delta)
        assert [s.base_offset for s in log.segments] == [0, 2, 4]

    def test_by_age_of_the_segment_where_records_have_no_time(self) -> None:
        log = new_log(segment_ms=1000)
        for delta in (0, 1000, 1001):
            append(log, timestamp_ms=-1, now_ms=NOW_MS + delta)
        assert [s.base_offset for s in log.segments] == [0, 2]

    def test_when_an_index_is_full(self) -> None:
        log = new_log(segment_index_bytes=32, index_interval_bytes=100)
        for _ in range(20):
            append(log)
        assert len(log.segments) > 3
        assert all(s.offset_index.entry_count <= 4 for s in log.segments)
        assert len(read_all(log)) == 20

    def test_when_an_offset_no_longer_fits(self) -> None:
        log = new_log()
        for base_offset in (0, 2**31 - 1, 2**31, 2**40):
            data = memoryview(encode_batch([Record(base_offset, NOW_MS, b"k", b"v")], base_offset=base_offset))
            assert log.append_as_follower(data, NOW_MS).error == ErrorCode.NONE
        assert [s.base_offset for s in log.segments] == [0, 2**31, 2**40]
        assert [record.offset for record in read_all(log)] == [0, 2**31 - 1, 2**31, 2**40]

    def test_an_empty_segment_gives_way_where_its_name_does_not_fit(self) -> None:
        log = new_log()
        data = memoryview(encode_batch([Record(2**40, NOW_MS, b"k", b"v")], base_offset=2**40))
        assert log.append_as_follower(data, NOW_MS).error == ErrorCode.NONE
        assert [s.base_offset for s in log.segments] == [2**40]
        assert log.log_end_offset == 2**40 + 1

    def test_on_demand(self) -> None:
        log = new_log()
        assert log.roll(NOW_MS) is log.segments[0]
        append(log, 5)
        log.roll(NOW_MS)
        log.roll(NOW_MS)
        assert [s.base_offset for s in log.segments] == [0, 5]

    def test_a_new_config_counts_at_once(self) -> None:
        log = new_log()
        append(log)
        log.update_config(topic_config(segment_bytes=len(batch(1)), max_message_bytes=len(batch(1))))
        append(log)
        assert len(log.segments) == 2
        assert log.append_as_leader(batch(2), 0, NOW_MS).error == ErrorCode.MESSAGE_TOO_LARGE


class TestFollower:
    def copied(self, **settings: object) -> tuple[Log, Log]:
        leader, follower = new_log(), new_log(**settings)
        for epoch in (1, 1, 4):
            append(leader, 3, leader_epoch=epoch, producer_id=-1)
        return leader, follower

    def test_takes_several_batches_as_they_are(self) -> None:
        leader, follower = self.copied()
        found = leader.read(0, 1 << 20, 9)
        assert found is not None
        info = follower.append_as_follower(memoryview(found.read()), NOW_MS)
        assert (info.error, info.base_offset, info.end_offset) == (ErrorCode.NONE, 0, 9)
        again = follower.read(0, 1 << 20, 9)
        assert again is not None
        assert again.read() == found.read()
        assert follower.leader_epochs.entries == leader.leader_epochs.entries == [(1, 0), (4, 6)]

    def test_leaves_a_cut_batch_for_the_next_fetch(self) -> None:
        leader, _ = self.copied()
        data = memoryview(leader.read(0, 1 << 20, 9).read())  # type: ignore[union-attr]
        for size in range(len(data)):
            fresh = new_log()
            info = fresh.append_as_follower(data[:size], NOW_MS)
            assert info.error == ErrorCode.NONE
            assert info.end_offset == 3 * (size // (len(data) // 3))

    def test_rolls_within_one_answer(self) -> None:
        leader, follower = self.copied(segment_bytes=250)
        data = memoryview(leader.read(0, 1 << 20, 9).read())  # type: ignore[union-attr]
        follower.append_as_follower(data, NOW_MS)
        assert [s.base_offset for s in follower.segments] == [0, 3, 6]
        assert [r.offset for r in read_all(follower)] == list(range(9))

    def test_refuses_what_it_has_and_what_is_broken(self) -> None:
        leader, follower = self.copied()
        data = leader.read(0, 1 << 20, 9).read()  # type: ignore[union-attr]
        follower.append_as_follower(memoryview(data), NOW_MS)
        assert follower.append_as_follower(memoryview(data), NOW_MS).error == ErrorCode.OFFSET_OUT_OF_RANGE
        broken = bytearray(data)
        broken[-1] ^= 1
        fresh = new_log()
        assert fresh.append_as_follower(memoryview(broken), NOW_MS).error == ErrorCode.CORRUPT_MESSAGE
        assert fresh.log_end_offset == 6


class TestBrokenDisk:
    def test_a_full_disk_appends_nothing_and_recovers(self) -> None:
        disk = SimulatedDisk()
        log = Log.open(disk, DIRECTORY, topic_config(), NOW_MS)
        data = batch(1, producer_id=9, producer_epoch=0, base_sequence=0)
        assert log.append_as_leader(data, 0, NOW_MS).error == ErrorCode.NONE
        for free_bytes in (0, 1, 50, len(data) - 1):
            disk.set_free_bytes(free_bytes)
            with pytest.raises(OSError) as caught:
                log.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=1), 3, NOW_MS)
            assert caught.value.errno == errno.ENOSPC
            assert log.log_end_offset == 1
            assert log.size_bytes == disk.size(f"{DIRECTORY}/{0:020d}.log") == len(data)
            assert log.leader_epochs.latest_epoch == 0
        disk.set_free_bytes(1 << 20)
        info = log.append_as_leader(batch(1, producer_id=9, producer_epoch=0, base_sequence=1), 3, NOW_MS)
        assert (info.error, info.base_offset, info.duplicate) == (ErrorCode.NONE, 1, False)
        assert len(read_all(log)) == 2

    def test_a_full_disk_at_an_index_entry_appends_nothing(self) -> None:
        disk = SimulatedDisk()
        log = Log.open(disk, DIRECTORY, topic_config(index_interval_bytes=100), NOW_MS)
        append(log)
        append(log)
        disk.set_free_bytes(len(batch(1)))
        end_offset = log.log_end_offset
        log.segments[0].release()  # the next entry needs its page anew
        with pytest.raises(OSError):
            append(log)
        assert log.log_end_offset == end_offset
        disk.set_free_bytes(1 << 20)
        append(log)
        assert len(read_all(log)) == end_offset + 1

    @pytest.mark.parametrize("kind", ["write", "create", "truncate"])
    @pytest.mark.parametrize("nth", [1, 2, 3, 4])
    def test_a_failure_at_any_step_of_a_roll_can_be_repeated(self, kind: str, nth: int) -> None:
        disk = SimulatedDisk()
        log = Log.open(disk, DIRECTORY, topic_config(segment_bytes=300, index_interval_bytes=50), NOW_MS)
        append(log)
        append(log)
        disk.fail(kind, nth=nth)
        accepted = failed = 0
        for _ in range(6):
            try:
                append(log)
                accepted += 1
            except OSError:
                failed += 1
        assert failed <= 1
        assert [record.offset for record in read_all(log)] == list(range(2 + accepted))
        log.close()
        again = Log.open(disk, DIRECTORY, topic_config(segment_bytes=300, index_interval_bytes=50), NOW_MS)
        assert [record.offset for record in read_all(again)] == list(range(2 + accepted))
