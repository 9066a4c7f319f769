"""The records of a client's batch, where its header alone does not decide whether it may be appended.

Topics ask for it (`cleanup.policy=compact` needs keys, `message.timestamp.before.max.ms` needs every timestamp,
`compression.type` another codec, `record.validation` sound records), and so does a header that claims a time too far
ahead: Kafka believes the records.
Always holds: a pure function of the bytes, the rules and the time, so that it can run on any thread; what it costs is
bounded by the budgets of `protocol.record_scan`. What it passes is a copy of its own, with the largest timestamp of its
records in its header, as Kafka writes it, packed as the topic asks.
Differs from Kafka: corrupt compressed bytes are INVALID_RECORD, not UNKNOWN_SERVER_ERROR; records whose offsets do not
ascend one by one are refused also where they are not compressed.
"""

from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.log.append import (
    NEEDS_INSPECTION,
    RECORD_ERRORS_MAX,
    AppendInfo,
    AppendRules,
    RecordError,
    check_client_batch,
    check_size,
    header_needs_inspection,
    malformed,
)
from barnabas.protocol.compression import Codec, compress
from barnabas.protocol.record_batch import (
    BODY,
    CODEC_MASK,
    HEADER_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    finish_batch,
    read_header,
)
from barnabas.protocol.record_scan import TooManyRecords, records_in, scan
from barnabas.types import NO_TIMESTAMP_MS

# So little is looked at where it is: that takes less time than a way to another thread and back.
SMALL_BYTES_MAX = 4096


class Inspected(NamedTuple):
    """A batch that may be appended. It can be written to."""

    header: BatchHeader
    batch: memoryview


class _Findings(NamedTuple):
    max_timestamp_ms: int
    error: ErrorCode
    record_errors: tuple[RecordError, ...]


def is_small(header: BatchHeader) -> bool:
    return header.batch_length <= SMALL_BYTES_MAX and header.codec == Codec.NONE


def needs_inspection(batches: memoryview, rules: AppendRules, now_ms: int) -> bool:
    """From the header alone; what is wrong with it is for the append to say."""
    try:
        header = read_header(batches, 0)
        return header_needs_inspection(header, rules, now_ms) and not is_small(header)
    except InvalidRecordBatch:
        return False


def inspect(batches: memoryview, rules: AppendRules, now_ms: int) -> Inspected | AppendInfo:
    """What was sent for a partition, checked from its beginning on; AppendInfo where it is refused."""
    try:
        header = read_header(batches, 0)
    except InvalidRecordBatch:
        return malformed(batches)
    refused = check_size(batches, header.size_bytes) if header.size_bytes != len(batches) else None
    if refused is not None:
        return refused
    batch = batches[: header.size_bytes]
    refused = check_client_batch(batch, header, rules, now_ms)
    if refused is not None and refused is not NEEDS_INSPECTION:
        return refused
    return looked_at(batch, header, rules, now_ms)


def looked_at(batch: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int) -> Inspected | AppendInfo:
    """As `inspect`, for one whole batch whose header is fine."""
    try:
        findings = _look(batch, header, rules, now_ms)
        if findings.record_errors:
            return _refusal(findings)
        header = header._replace(max_timestamp_ms=findings.max_timestamp_ms)
        if rules.codec is not None and rules.codec != header.codec:
            return _packed_anew(batch, header, rules.codec, rules)
    except TooManyRecords as problem:
        return AppendInfo.failed(ErrorCode.MESSAGE_TOO_LARGE, str(problem))  # a producer then splits the batch
    except InvalidRecordBatch as problem:
        return AppendInfo.failed(ErrorCode.INVALID_RECORD, str(problem))
    own = bytearray(batch)
    if read_header(own).max_timestamp_ms != header.max_timestamp_ms:
        own = finish_batch(header.base_offset, header.leader_epoch, BODY.pack(*header[5:]), batch[HEADER_BYTES:])
    return Inspected(header, memoryview(own))


def _look(batch: memoryview, header: BatchHeader, rules: AppendRules, now_ms: int) -> _Findings:
    append_time_ms = header.max_timestamp_ms if header.is_log_append_time else None
    base_timestamp_ms = header.base_timestamp_ms
    earliest_ms = now_ms - rules.timestamp_before_max_ms
    latest_ms = now_ms + rules.timestamp_after_max_ms
    needs_key = rules.is_compacted
    max_timestamp_ms = NO_TIMESTAMP_MS
    errors: list[RecordError] = []
    error = ErrorCode.INVALID_RECORD
    for number, (offset_delta, timestamp_delta_ms, has_key) in enumerate(scan(batch, header)):
        if offset_delta != number:
            raise InvalidRecordBatch(f"record {number} of a batch has the offset delta {offset_delta}")
        timestamp_ms = base_timestamp_ms + timestamp_delta_ms if append_time_ms is None else append_time_ms
        if timestamp_ms > max_timestamp_ms:
            max_timestamp_ms = timestamp_ms
        if needs_key and not has_key:
            if len(errors) < RECORD_ERRORS_MAX:
                errors.append((number, "a compacted topic needs keys"))
        elif timestamp_ms != NO_TIMESTAMP_MS and not earliest_ms <= timestamp_ms <= latest_ms:
            error = ErrorCode.INVALID_TIMESTAMP
            if len(errors) < RECORD_ERRORS_MAX:
                errors.append((number, f"timestamp {timestamp_ms} is not within {max(earliest_ms, 0)} and {latest_ms}"))
    return _Findings(max_timestamp_ms, error, tuple(errors))


def _refusal(findings: _Findings) -> AppendInfo:
    """One wrong time among the records decides the error of all, as in Kafka."""
    errors = findings.record_errors
    if findings.error == ErrorCode.INVALID_TIMESTAMP:
        return AppendInfo.failed(
            findings.error, next(text for _, text in errors if text.startswith("timestamp")), errors
        )
    return AppendInfo.failed(findings.error, "records without a key in a compacted topic", errors)


def _packed_anew(batch: memoryview, header: BatchHeader, codec: Codec, rules: AppendRules) -> Inspected | AppendInfo:
    packed = compress(codec, records_in(batch, header), rules.codec_level)
    header = header._replace(attributes=header.attributes & ~CODEC_MASK | codec)
    own = finish_batch(header.base_offset, header.leader_epoch, BODY.pack(*header[5:]), packed)
    if len(own) > rules.max_message_bytes:
        return AppendInfo.failed(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{len(own)} bytes once packed anew, where {rules.max_message_bytes} are allowed",
        )
    return Inspected(read_header(own), memoryview(own))
