"""What is wrong with the files of a log, found without a broker.

`WRONG` is what a broker cannot repair by itself: records that are lost or changed. A `WARNING` it mends when it starts:
indexes and snapshots are built anew, and what a crash left behind the last whole batch of the newest segment is cut.
Does not know: how findings are shown; brokers.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from barnabas.cli import segment_files
from barnabas.cli.segment_files import ReadOnlyFile
from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.offset_index import RELATIVE_OFFSET_MAX
from barnabas.log.producer_state import SNAPSHOT_SUFFIX, CorruptSnapshot
from barnabas.log.scan import batches_from
from barnabas.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas.log.transaction_index import CorruptTransactionIndex
from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    crc_matches,
    decode_records,
    read_header,
)
from barnabas.types import Offset, Position

WRONG = "wrong"
WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    file: str
    position: Position | None
    severity: str
    problem: str


@dataclass(slots=True)
class Checked:
    """What was read of one segment, and what of it was not as it must be."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    end_offset: Offset = 0
    leader_epoch: int = -1
    findings: list[Finding] = field(default_factory=list)
    starts: dict[Position, Offset] = field(default_factory=dict)  # the last offset of the batch at each position
    last_offsets: list[Offset] = field(default_factory=list)  # ascending, one for each batch,
    latest_ms: list[int] = field(default_factory=list)  # and the latest timestamp up to it


def check_directory(
    files: list[Path], *, deep: bool, advance: Callable[[float], None] = lambda _bytes: None
) -> tuple[list[Finding], Checked]:
    """All segments among these files of one directory, in their order; and what was read in all."""
    total = Checked()
    logs = [path for path in files if path.suffix == LOG_SUFFIX]
    for path in logs:
        found = check_segment(path, deep=deep, newest=path is logs[-1], advance=advance)
        if total.batches and found.batches and segment_files.base_offset(path) < total.end_offset:
            _wrong(found, path, 0, f"begins below {total.end_offset}, where the segment before it ends")
        if 0 <= found.leader_epoch < total.leader_epoch:
            _wrong(found, path, 0, f"leader epoch {found.leader_epoch} after {total.leader_epoch}")
        _check_indexes(path, files, found)
        total.findings += found.findings
        total.batches += found.batches
        total.records += found.records
        total.bytes += found.bytes
        total.end_offset = max(total.end_offset, found.end_offset)
        total.leader_epoch = max(total.leader_epoch, found.leader_epoch)
    total.findings += _check_snapshots(files)
    return total.findings, total


def check_segment(
    path: Path, *, deep: bool, newest: bool, advance: Callable[[float], None] = lambda _bytes: None
) -> Checked:
    """Batches from the first to the last; `deep` also unpacks and reads their records."""
    base_offset = segment_files.base_offset(path)
    found = Checked(end_offset=base_offset)
    file = ReadOnlyFile(str(path))
    size = file.size()
    end = 0
    for position, header, view in batches_from(file, 0, size):
        problem = _problem(header, view, found, base_offset) or (_deep_problem(header, view) if deep else None)
        if problem:
            _wrong(found, path, position, problem)
        _count(found, position, header)
        end = position + header.size_bytes
        advance(header.size_bytes)
    if end < size:
        severity = WARNING if newest else WRONG
        found.findings.append(
            Finding(file=str(path), position=end, severity=severity, problem=_why_it_ends(file, end, size))
        )
    found.bytes = size
    file.close()
    return found


def _wrong(found: Checked, path: Path, position: Position, problem: str) -> None:
    found.findings.append(Finding(file=str(path), position=position, severity=WRONG, problem=problem))


def _problem(header: BatchHeader, view: memoryview, found: Checked, base_offset: Offset) -> str | None:
    if not crc_matches(view, 0, header):
        return "the checksum does not match: the records have changed since they were written"
    if header.base_offset < found.end_offset:
        return f"begins at offset {header.base_offset}, where {found.end_offset} is due or more"
    if header.last_offset_delta < 0 or header.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        return f"ends at offset {header.last_offset}, which cannot be in this segment"
    if 0 <= header.leader_epoch < found.leader_epoch:
        return f"leader epoch {header.leader_epoch} after {found.leader_epoch}"
    return None


def _deep_problem(header: BatchHeader, view: memoryview) -> str | None:
    try:
        records = decode_records(view)
    except InvalidRecordBatch as error:
        return f"its records cannot be read: {error}"
    offset = header.base_offset - 1
    for record in records:
        if not offset < record.offset <= header.last_offset:
            return f"a record at offset {record.offset} after {offset} in a batch that ends at {header.last_offset}"
        offset = record.offset
    return None


def _count(found: Checked, position: Position, header: BatchHeader) -> None:
    found.batches += 1
    found.records += header.record_count
    found.end_offset = max(found.end_offset, header.next_offset)
    found.leader_epoch = max(found.leader_epoch, header.leader_epoch)
    found.starts[position] = header.last_offset
    latest_ms = found.latest_ms[-1] if found.latest_ms else -1
    found.last_offsets.append(header.last_offset)
    found.latest_ms.append(max(latest_ms, header.max_timestamp_ms))


def _why_it_ends(file: ReadOnlyFile, position: Position, size: int) -> str:
    left = size - position
    try:
        header = read_header(file.read(position, HEADER_BYTES))
    except InvalidRecordBatch as error:
        return f"{left} bytes that are no batch: {error}"
    return f"a batch of {header.size_bytes} bytes of which {left} are there"


def _check_indexes(path: Path, files: list[Path], found: Checked) -> None:
    checks: dict[str, Callable[[Path, Checked], str | None]] = {
        INDEX_SUFFIX: _offset_index_problem,
        TIME_INDEX_SUFFIX: _time_index_problem,
        TRANSACTION_INDEX_SUFFIX: _transaction_index_problem,
    }
    for suffix, check in checks.items():
        index = path.with_suffix(suffix)
        if index not in files:
            continue
        try:
            problem = check(index, found)
        except (CorruptIndex, CorruptTransactionIndex) as error:
            problem = str(error)
        if problem:
            found.findings.append(Finding(file=str(index), position=None, severity=WARNING, problem=problem))


def _offset_index_problem(path: Path, found: Checked) -> str | None:
    before = (segment_files.base_offset(path) - 1, -1)
    for entry in segment_files.offset_entries(path):
        offset, position = entry
        if not (offset > before[0] and position > before[1]):
            return f"entry {entry} after {before}: entries must ascend"
        if found.starts.get(position) != offset:
            return f"offset {offset} is not the last of a batch at position {position}"
        before = entry
    return None


def _time_index_problem(path: Path, found: Checked) -> str | None:
    before_ms = -1
    for timestamp_ms, offset in segment_files.time_entries(path):
        if timestamp_ms < before_ms:
            return f"timestamp {timestamp_ms} after {before_ms}: entries must ascend"
        number = bisect_left(found.last_offsets, offset)
        if number == len(found.last_offsets):
            return f"offset {offset} is beyond the segment"
        if found.latest_ms[number] < timestamp_ms:
            return f"timestamp {timestamp_ms} is later than every record up to offset {offset}"
        before_ms = timestamp_ms
    return None


def _transaction_index_problem(path: Path, found: Checked) -> str | None:
    for aborted in segment_files.aborted_transactions(path):
        if aborted.last_offset >= found.end_offset:
            return f"a transaction ends at offset {aborted.last_offset}, beyond the segment"
    return None


def _check_snapshots(files: list[Path]) -> list[Finding]:
    findings = []
    for path in files:
        if path.suffix == SNAPSHOT_SUFFIX:
            try:
                list(segment_files.producers(path))
            except CorruptSnapshot as error:
                findings.append(Finding(file=str(path), position=None, severity=WARNING, problem=str(error)))
    return findings
