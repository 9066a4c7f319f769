"""Whether the leader may append what a producer sent, and the answer to it.

The checks are Kafka's, in its order, on the batch header alone: where the topic or the header asks for more, the answer
is NEEDS_INSPECTION, and `log.inspection` looks at the records.
Differs from Kafka: broken records under a matching CRC, or a header whose largest timestamp is not that of its
records, are stored as they came, unless `record.validation` asks otherwise (docs/decisions/0007-record-validation.md);
an unknown codec and linked LZ4 blocks get a proper error instead of UNKNOWN_SERVER_ERROR; a batch has a largest number
of records.
Always holds: checking changes nothing. Does not know: offsets, sequences of producers, files.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from barnabas.config.topic import TopicConfig
from barnabas.config.validation import LONG_MAX
from barnabas.errors import ErrorCode
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    OldMessageFormat,
    crc_matches,
    read_header,
    recompress,
)
from barnabas.protocol.record_scan import RECORDS_MAX
from barnabas.types import NO_OFFSET, NO_TIMESTAMP_MS, Offset

RecordError = tuple[int, str]  # index in the batch, and what is wrong with it

_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_CODEC_MAX = int(Codec.ZSTD)
_LZ4_FLAGS_POSITION = HEADER_BYTES + 4  # behind the magic number of the frame
_LZ4_INDEPENDENT_BIT = 0x20
RECORD_ERRORS_MAX = 1000  # named in one answer
_OLD_MESSAGE_BYTES_MIN = 14  # of a message in format 0, behind its offset and length
_MAGIC_POSITION = 16
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")


class AppendOrigin(IntEnum):
    """Who appends. Only clients are checked for what only brokers may write."""

    CLIENT = 0
    COORDINATOR = 1  # group and transaction coordinators, and the controller


class AppendInfo(NamedTuple):
    """What became of one append. Where `error` is not NONE nothing was written."""

    error: ErrorCode = ErrorCode.NONE
    base_offset: Offset = NO_OFFSET
    end_offset: Offset = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP_MS
    log_start_offset: Offset = NO_OFFSET
    duplicate: bool = False  # written before: these are the offsets of then
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()

    @classmethod
    def failed(
        cls, error: ErrorCode, error_message: str | None = None, record_errors: tuple[RecordError, ...] = ()
    ) -> "AppendInfo":
        return cls(error, error_message=error_message, record_errors=record_errors)


# Not an answer: the header alone does not decide. `log.inspection` does, away from the event loop.
NEEDS_INSPECTION = AppendInfo.failed(ErrorCode.UNKNOWN_SERVER_ERROR, "the records were not looked at")

_NONE = ErrorCode.NONE
_new_tuple = tuple.__new__  # half the cost of calling the class


def appended(base_offset: Offset, end_offset: Offset, log_append_time_ms: int, log_start_offset: Offset) -> AppendInfo:
    fields = (_NONE, base_offset, end_offset, log_append_time_ms, log_start_offset, False, None, ())
    return _new_tuple(AppendInfo, fields)


class AppendRules:
    """The settings that every append needs, as plain attributes."""

    __slots__ = (
        "codec",
        "codec_level",
        "inspects",
        "is_compacted",
        "max_message_bytes",
        "segment_bytes",
        "segment_ms",
        "stamps_append_time",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, config: TopicConfig) -> None:
        self.max_message_bytes = config.max_message_bytes
        self.segment_bytes = config.segment_bytes
        self.segment_ms = config.segment_ms
        self.stamps_append_time = config.message_timestamp_type == "LogAppendTime"
        self.timestamp_before_max_ms = config.message_timestamp_before_max_ms
        self.timestamp_after_max_ms = config.message_timestamp_after_max_ms
        if self.stamps_append_time:  # whatever a producer says
            self.timestamp_before_max_ms = self.timestamp_after_max_ms = LONG_MAX
        self.is_compacted = "compact" in config.cleanup_policy
        if self.is_compacted:  # what is in the active segment cannot be compacted
            self.segment_ms = min(self.segment_ms, config.max_compaction_lag_ms)
        self.codec = _CODECS.get(config.compression_type)  # None: stored as the producer packed it
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        self.codec_level = None if self.codec is None else levels.get(self.codec)
        checks_every_timestamp = self.timestamp_before_max_ms != LONG_MAX
        needs_records = self.is_compacted or checks_every_timestamp or config.record_validation == "all"
        validates_compressed = config.record_validation == "compressed"
        # By the codec of a batch: whether its records must be looked at, or packed anew.
        self.inspects = tuple(
            needs_records or (validates_compressed and codec != Codec.NONE) or self.codec not in (None, codec)
            for codec in Codec
        ) + (False,) * (CODEC_MASK - _CODEC_MAX)  # unknown codecs are refused before


def check_client_batch(batch: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int) -> AppendInfo | None:
    """None where a client may append this batch, else the answer to it.  # benchmarks/log_append.py"""
    if header.base_offset != 0:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, "the base offset of a new batch must be 0")
    refused = check_batch(batch, header, rules)
    if refused is not None:
        return refused
    last_offset_delta = header.last_offset_delta
    if last_offset_delta < 0 or last_offset_delta + 1 != header.record_count:
        return AppendInfo.failed(
            ErrorCode.INVALID_RECORD, f"{header.record_count} records cannot end at offset {last_offset_delta}"
        )
    if last_offset_delta >= RECORDS_MAX:  # a producer splits the batch at this error
        return AppendInfo.failed(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {header.record_count} records where {RECORDS_MAX} are allowed"
        )
    attributes = header.attributes
    if attributes & CONTROL_BIT:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, "a producer id needs a sequence number")
    if attributes & LOG_APPEND_TIME_BIT and (rules.stamps_append_time or header.max_timestamp_ms == NO_TIMESTAMP_MS):
        problem = "producers may not mark a batch as stamped by the broker"
        named = tuple((number, problem) for number in range(min(header.record_count, RECORD_ERRORS_MAX)))
        return AppendInfo.failed(ErrorCode.INVALID_TIMESTAMP, problem, named)
    # As `header_needs_inspection`; in line, for every batch comes here.
    if rules.inspects[attributes & CODEC_MASK] or header.max_timestamp_ms - now_ms > rules.timestamp_after_max_ms:
        return NEEDS_INSPECTION
    return None


def header_needs_inspection(header: BatchHeader, rules: AppendRules, now_ms: int) -> bool:
    """Whether the records decide; also where the header claims a time too far ahead, for Kafka believes the records."""
    is_ahead = header.max_timestamp_ms - now_ms > rules.timestamp_after_max_ms
    return is_ahead or rules.inspects[header.attributes & CODEC_MASK]


def check_batch(batch: memoryview, header: BatchHeader, rules: AppendRules) -> AppendInfo | None:
    """What holds for whoever appends as leader: the size, the CRC, the codec."""
    size_bytes = len(batch)
    if size_bytes > rules.max_message_bytes:
        return AppendInfo.failed(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size_bytes} bytes where {rules.max_message_bytes} are allowed"
        )
    if size_bytes > rules.segment_bytes:
        return AppendInfo.failed(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size_bytes} bytes where a segment has {rules.segment_bytes}"
        )
    if crc32c(batch[CRC_START:]) != header.crc:
        return AppendInfo.failed(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    codec = header.attributes & CODEC_MASK
    if not codec:
        return None
    if codec > _CODEC_MAX:
        return AppendInfo.failed(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown codec {codec}")
    if codec == Codec.LZ4 and _has_linked_blocks(batch):
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, "LZ4 with linked blocks, which Kafka's clients do not read")
    return None


def _has_linked_blocks(batch: memoryview) -> bool:
    return len(batch) > _LZ4_FLAGS_POSITION and not batch[_LZ4_FLAGS_POSITION] & _LZ4_INDEPENDENT_BIT


def clear_append_time(batch: memoryview) -> None:
    """Takes the mark of the broker's stamp off a batch, in place, as Kafka does where a topic keeps producers' time."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, CRC_START)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes & ~LOG_APPEND_TIME_BIT)
    _CRC.pack_into(batch, CRC_START - _CRC.size, crc32c(batch[CRC_START:]))


def own_copy(batch: memoryview, header: BatchHeader, rules: AppendRules) -> memoryview | AppendInfo:
    """A batch that may be written to, in the codec that the topic asks for."""
    codec = rules.codec
    if codec is None or codec == header.codec or header.is_control:
        return memoryview(bytearray(batch))
    try:
        packed = recompress(batch, codec, level=rules.codec_level)
    except InvalidRecordBatch as problem:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, str(problem))
    if len(packed) > rules.max_message_bytes:
        return AppendInfo.failed(ErrorCode.MESSAGE_TOO_LARGE, f"{len(packed)} bytes once packed anew")
    return memoryview(packed)


def malformed(batches: memoryview) -> AppendInfo:
    """The answer to bytes that do not begin with a whole batch of format 2."""
    try:
        header = read_header(batches, 0)
    except OldMessageFormat as problem:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, f"{problem}, where only 2 is accepted")
    except InvalidRecordBatch as problem:
        if _is_cut_short(batches):
            return AppendInfo.failed(ErrorCode.INVALID_RECORD, "there is no whole batch")
        return AppendInfo.failed(ErrorCode.CORRUPT_MESSAGE, str(problem))
    return AppendInfo.failed(
        ErrorCode.INVALID_RECORD, f"a batch of {header.size_bytes} bytes where {len(batches)} were sent"
    )


def check_size(batches: memoryview, size_bytes: int) -> AppendInfo | None:
    """Of bytes whose first batch has another size than they have."""
    return malformed(batches) if size_bytes > len(batches) else _check_surplus(batches[size_bytes:])


def _check_surplus(surplus: memoryview) -> AppendInfo | None:
    """What follows the first batch: remains of another are dropped, as Kafka does; a whole one is refused."""
    if _is_cut_short(surplus):
        return None
    length = int.from_bytes(surplus[8:12], "big", signed=True)
    magic = surplus[_MAGIC_POSITION]
    if length < _OLD_MESSAGE_BYTES_MIN or magic > 2:
        return AppendInfo.failed(ErrorCode.CORRUPT_MESSAGE, "what follows the batch is none")
    return AppendInfo.failed(ErrorCode.INVALID_RECORD, "exactly one batch per partition is accepted")


def _is_cut_short(data: memoryview) -> bool:
    """Whether these may be the first bytes of a batch whose rest is missing."""
    if len(data) < LOG_OVERHEAD_BYTES:
        return True
    length = int.from_bytes(data[8:12], "big", signed=True)
    if length < _OLD_MESSAGE_BYTES_MIN:
        return False
    if len(data) <= _MAGIC_POSITION:
        return True
    return data[_MAGIC_POSITION] <= 2 and LOG_OVERHEAD_BYTES + length > len(data)


def check_replicated(batches: memoryview, next_offset: Offset) -> tuple[list[BatchHeader], ErrorCode, str | None]:
    """The headers of whole batches from the leader that may be appended behind one another, and what ends them."""
    headers: list[BatchHeader] = []
    position = 0
    while len(batches) - position >= HEADER_BYTES:
        try:
            header = read_header(batches, position)
        except InvalidRecordBatch as problem:
            return headers, ErrorCode.CORRUPT_MESSAGE, str(problem)
        if position + header.size_bytes > len(batches):
            break
        if not crc_matches(batches, position, header):
            return headers, ErrorCode.CORRUPT_MESSAGE, "the CRC does not match"
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            problem_found = f"offset {header.base_offset} where {next_offset} comes next"
            return headers, ErrorCode.OFFSET_OUT_OF_RANGE, problem_found
        headers.append(header)
        next_offset = header.next_offset
        position += header.size_bytes
    return headers, ErrorCode.NONE, None
