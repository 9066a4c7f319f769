"""Records of a batch that a client sent, where the topic asks for a look at them."""

from collections.abc import Sequence

import pytest
from log_fixtures import DIRECTORY, NOW_MS, read_all, topic_config

from barnabas.errors import ErrorCode
from barnabas.log.append import NEEDS_INSPECTION, RECORD_ERRORS_MAX, AppendInfo
from barnabas.log.inspection import SMALL_BYTES_MAX, inspect, needs_inspection
from barnabas.log.log import Log
from barnabas.protocol import record_scan
from barnabas.protocol.compression import LZ4_HEADER, Codec, compress
from barnabas.protocol.record_batch import BODY, Record, append_varint, encode_batch, finish_batch, read_header
from barnabas.runtime.memory_disk import MemoryDisk


def body(count: int, *, deltas: Sequence[int] | None = None, timestamp_delta_ms: int = 0, headers: int = 0) -> bytes:
    out = bytearray()
    for number in range(count):
        record = bytearray(1)
        append_varint(record, timestamp_delta_ms)
        append_varint(record, number if deltas is None else deltas[number])
        record += b"\x02k\x02v"
        append_varint(record, headers)
        record += b"\x00\x01" * headers
        append_varint(out, len(record))
        out += record
    return bytes(out)


def raw(count: int, data: bytes, codec: Codec = Codec.NONE, *, max_timestamp_ms: int = NOW_MS) -> memoryview:
    """A batch whose header says what it is told to say; packed already."""
    return memoryview(
        finish_batch(0, -1, BODY.pack(codec, count - 1, NOW_MS, max_timestamp_ms, -1, -1, -1, count), data)
    )


def packed(count: int, data: bytes, codec: Codec) -> memoryview:
    return raw(count, compress(codec, data), codec)


def new_log(**settings: object) -> Log:
    return Log.open(MemoryDisk(), DIRECTORY, topic_config(**settings), NOW_MS)


def append(log: Log, batch: memoryview) -> AppendInfo:
    return log.append_as_leader(batch, 0, NOW_MS)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    ("count", "data"),
    [
        (3, body(3) + b"junk"),
        (5, body(3)),
        (2, body(3)),
        (3, body(3)[:-1]),
        (3, body(3, deltas=[0, 0, 0])),
        (3, body(3, deltas=[1, 2, 3])),
        (1, b"\x0c\x00\x00\x00\x01\x01\x02"),  # a header that is not there
        (1, b"\x0c\x00\x00\x00\x05\x01\x00"),  # a length of -3
    ],
)
def test_unsound_records_are_refused(codec: Codec, count: int, data: bytes) -> None:
    log = new_log(record_validation="all")
    assert append(log, packed(count, data, codec)).error == ErrorCode.INVALID_RECORD
    assert log.log_end_offset == 0


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("settings", [{"record_validation": "compressed"}, {"cleanup_policy": "compact"}])
def test_corrupt_compressed_bytes_are_refused(codec: Codec, settings: dict[str, str]) -> None:
    assert append(new_log(**settings), raw(3, LZ4_HEADER + b"\xff" * 40, codec)).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("max_timestamp_ms", [-1, NOW_MS - 1000, NOW_MS + 7, NOW_MS + 1000])
def test_the_largest_timestamp_is_that_of_the_records(codec: Codec, max_timestamp_ms: int) -> None:
    log = new_log(record_validation="all")
    data = compress(codec, body(3, timestamp_delta_ms=7))
    assert append(log, raw(3, data, codec, max_timestamp_ms=max_timestamp_ms)).error == ErrorCode.NONE
    stored = log.read(0, 1 << 20, 3)
    assert stored is not None
    assert read_header(stored.read()).max_timestamp_ms == NOW_MS + 7
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS + 7] * 3


def test_a_header_that_is_ahead_of_its_time_is_corrected_by_its_records() -> None:
    """Without any setting, as in Kafka; and where the records are ahead too, they are named."""
    log = new_log()
    assert append(log, raw(3, body(3), max_timestamp_ms=NOW_MS + 10**9)).error == ErrorCode.NONE
    assert offset_times(log) == [NOW_MS] * 3
    late = encode_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS + 10**9, b"k", b"v")])
    info = append(log, memoryview(late))
    assert info.error == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in info.record_errors] == [1]


def offset_times(log: Log) -> list[int]:
    return [record.timestamp_ms for record in read_all(log)]


def test_a_batch_that_the_broker_did_not_stamp_names_its_records() -> None:
    stamped = encode_batch([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS, None, b"v")], log_append_time=True)
    info = append(new_log(message_timestamp_type="LogAppendTime"), memoryview(stamped))
    assert info.error == ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in info.record_errors] == [0, 1]


def test_linked_blocks_of_lz4_are_refused_by_the_frame_alone() -> None:
    data = bytearray(compress(Codec.LZ4, body(3)))
    assert data[4] & 0x20
    data[4] &= ~0x20
    assert append(new_log(), raw(3, bytes(data), Codec.LZ4)).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("settings", [{}, {"cleanup_policy": "compact"}, {"compression_type": "gzip"}])
def test_a_batch_has_a_largest_number_of_records(settings: dict[str, str]) -> None:
    """From the header alone: nothing is unpacked."""
    count = record_scan.RECORDS_MAX + 1
    info = append(new_log(**settings), raw(count, b"\xff" * 100, Codec.ZSTD))
    assert info.error == ErrorCode.MESSAGE_TOO_LARGE
    assert str(count) in (info.error_message or "")


def test_what_unpacks_to_too_much_is_too_large() -> None:
    bomb = compress(Codec.ZSTD, bytes(record_scan.RECORDS_BYTES_MAX + 1))
    assert len(bomb) < 10_000
    for settings in ({"cleanup_policy": "compact"}, {"compression_type": "gzip"}, {"record_validation": "all"}):
        assert append(new_log(**settings), raw(1, bomb, Codec.ZSTD)).error == ErrorCode.MESSAGE_TOO_LARGE


def test_record_headers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_scan, "RECORD_HEADERS_MAX", 10)
    log = new_log(record_validation="all")
    assert append(log, raw(2, body(2, headers=5))).error == ErrorCode.NONE
    assert append(log, raw(2, body(2, headers=6))).error == ErrorCode.MESSAGE_TOO_LARGE


def test_only_so_many_records_are_named() -> None:
    batch = encode_batch([Record(n, NOW_MS, None, b"v") for n in range(RECORD_ERRORS_MAX + 5)])
    info = append(new_log(cleanup_policy="compact"), memoryview(batch))
    assert info.error == ErrorCode.INVALID_RECORD
    assert len(info.record_errors) == RECORD_ERRORS_MAX


def test_who_defers_is_asked_to_look_and_comes_again() -> None:
    log = new_log(cleanup_policy="compact", compression_type="gzip")
    batch = memoryview(encode_batch([Record(n, NOW_MS, b"k", b"v" * 20) for n in range(100)], codec=Codec.ZSTD))
    assert needs_inspection(batch, log.rules, NOW_MS)
    assert log.append_as_leader(batch, 0, NOW_MS, defers=True) is NEEDS_INSPECTION
    inspected = inspect(batch, log.rules, NOW_MS)
    assert log.append_as_leader(batch, 0, NOW_MS, inspected=inspected).end_offset == 100
    stored = log.read(0, 1 << 20, 100)
    assert stored is not None
    assert read_header(stored.read()).codec == Codec.GZIP
    small = memoryview(encode_batch([Record(0, NOW_MS, b"k", b"v")]))
    assert len(small) < SMALL_BYTES_MAX
    assert new_log(cleanup_policy="compact").append_as_leader(small, 0, NOW_MS, defers=True).end_offset == 1


def test_ordinary_topics_look_at_no_record() -> None:
    log = new_log()
    for codec in Codec:
        assert not needs_inspection(raw(3, b"\xff" * 70, codec), log.rules, NOW_MS)
