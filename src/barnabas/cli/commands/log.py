"""`barnabas log`: segment files, read and checked without a broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli import output, segment_files
from barnabas.cli.app import noun, verb
from barnabas.cli.moments import iso
from barnabas.cli.options import Json
from barnabas.cli.segment_check import WRONG, Checked, Finding, check_directory
from barnabas.cli.segment_files import Decoder, ReadOnlyFile
from barnabas.cli.text import CommandFailed, Exit, counted
from barnabas.consensus.snapshot_file import SUFFIX as METADATA_SNAPSHOT_SUFFIX
from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.producer_state import CorruptSnapshot
from barnabas.log.scan import StoredBatch, batches_from
from barnabas.log.segment import LOG_SUFFIX
from barnabas.log.transaction_index import CorruptTransactionIndex
from barnabas.protocol.record_batch import BatchHeader, InvalidRecordBatch, crc_matches, decode_records

app = noun("Reads and checks segment files. No broker is needed, and none is disturbed; nothing is changed.")

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Files of segments, or directories of partitions.", show_default=False),
]


@verb(
    app,
    "barnabas log dump barnabas-data/node-1/orders-0",
    "barnabas log dump orders-0/00000000000000000000.log --print-data-log --from 100 --max-messages 10",
    "barnabas log dump __cluster_metadata-0 --print-data-log --json",
    "barnabas log dump orders-0/00000000000000000000.timeindex",
)
def dump(
    paths: Paths,
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Show records too; those of internal topics decoded.")
    ] = False,
    first: Annotated[int, typer.Option("--from", metavar="OFFSET", help="Begin at this offset.")] = 0,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", min=1, metavar="N", help="Stop after so many lines.")
    ] = None,
    json: Json = False,
) -> int:
    """Shows what is in the files of segments.

    Batches, records, entries of indexes, producers of snapshots. With --json it is one object for each line.
    """
    shown = 0
    for path in _files(paths):
        if not json:
            print(f"{path}:")
        for line in _lines(path, print_data_log, first):
            print(output.line_of(line) if json else _text(line))
            shown += 1
            if shown == max_messages:
                return Exit.DONE
    return Exit.DONE


@verb(
    app,
    "barnabas log verify barnabas-data/node-1",
    "barnabas log verify barnabas-data/node-1/orders-0 --deep-iteration",
)
def verify(
    paths: Paths,
    deep_iteration: Annotated[
        bool, typer.Option("--deep-iteration", help="Unpack every batch and read its records too.")
    ] = False,
    json: Json = False,
) -> int:
    """Checks the files of segments.

    Checksums, order of offsets and epochs, indexes against batches, ends that were torn off. What a broker repairs by
    itself when it starts is a warning. Ends with 1 where something else is wrong.
    """
    found: list[Finding] = []
    total = Checked()
    directories: dict[Path, list[Path]] = {}
    for path in _files(paths):
        directories.setdefault(path.parent, []).append(path)
    size = sum(path.stat().st_size for files in directories.values() for path in files if path.suffix == LOG_SUFFIX)
    with output.progress("checking", size) as bar:
        for directory, files in directories.items():
            bar.describe(directory.name)
            findings, checked = check_directory(files, deep=deep_iteration, advance=bar.advance)
            found += findings
            for name in ("batches", "records", "bytes"):
                setattr(total, name, getattr(total, name) + getattr(checked, name))
    files_read = sum(len(files) for files in directories.values())
    if json:
        counts = {"files": files_read, "batches": total.batches, "records": total.records, "bytes": total.bytes}
        output.document({**counts, "findings": found})
    else:
        rows = ((each.severity, each.file, each.position, each.problem) for each in found)
        output.table(("severity", "file", "position", "problem"), rows)
        verdict = "nothing is wrong" if not found else counted(len(found), "finding")
        print(f"{files_read} files, {total.batches} batches, {total.records} records, {total.bytes} bytes: {verdict}")
    return Exit.FAILED if any(each.severity == WRONG for each in found) else Exit.DONE


def _files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CommandFailed(f"there is no file or directory {path}", Exit.NOT_FOUND)
        files = segment_files.files_of(path)
        if not files or (path.is_file() and path.suffix not in segment_files.KINDS):
            kinds = ", ".join(segment_files.KINDS)
            raise CommandFailed(f"{path} holds no file of a segment ({kinds})", Exit.NOT_FOUND)
        found += files
    return found


def _lines(path: Path, with_records: bool, first: int) -> Iterator[dict[str, Any]]:
    if path.suffix in (LOG_SUFFIX, METADATA_SNAPSHOT_SUFFIX):
        yield from _batches(path, with_records, first)
        return
    try:
        for entry in segment_files.walk_entries(path):
            if entry.get("offset", first) >= first:
                yield entry
    except (CorruptIndex, CorruptSnapshot, CorruptTransactionIndex) as error:
        raise CommandFailed(f"{path} is broken: {error}; a broker builds it anew when it starts") from None


def _batches(path: Path, with_records: bool, first: int) -> Iterator[dict[str, Any]]:
    is_snapshot = path.suffix == METADATA_SNAPSHOT_SUFFIX
    decoder = Decoder("__cluster_metadata" if is_snapshot else segment_files.topic_of(path))
    file = ReadOnlyFile(str(path))
    size = file.size()
    end = 0
    for batch in batches_from(file, 0, size):
        end = batch.position + batch.header.size_bytes
        if batch.header.last_offset < first:
            continue
        yield _batch(batch)
        if with_records:
            yield from _records(path, batch, decoder, first)
    if end < size:
        raise CommandFailed(f"{path}: no batch can be read at position {end} of {size}; barnabas log verify says more")


def _batch(batch: StoredBatch) -> dict[str, Any]:
    header: BatchHeader = batch.header
    return {
        "position": batch.position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "max_timestamp_ms": header.max_timestamp_ms,
        "delete_horizon_ms": header.delete_horizon_ms,
        "codec": header.codec.name.lower(),
        "bytes": header.size_bytes,
        "crc": header.crc,
        "valid": crc_matches(batch.view, 0, header),
    }


def _records(path: Path, batch: StoredBatch, decoder: Decoder, first: int) -> Iterator[dict[str, Any]]:
    try:
        records = decode_records(batch.view)
    except InvalidRecordBatch as error:
        raise CommandFailed(f"{path}: the batch at position {batch.position} cannot be read: {error}") from None
    for record in records:
        if record.offset >= first:
            decoded = decoder(record, batch.header.is_control)
            yield {
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": decoded.key,
                "value": decoded.value,
                "headers": dict(record.headers),
            }


def _text(line: dict[str, Any]) -> str:
    words = []
    for name, value in line.items():
        if value is None and name == "delete_horizon_ms":
            continue
        if name == "timestamp_ms" and value >= 0:
            value = iso(value)
        words.append(f"{name}={output.word(value)}")
    return ("| " if "key" in line else "") + " ".join(words)
