"""Walking over the batches of a segment file by their headers.

Reads in chunks and steps from header to header in memory: one system call serves many batches.
Always holds: nothing beyond `end` is looked at, so that a walk sees only what was there when it began.
"""

import errno
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from barnabas.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    InvalidRecordBatch,
    read_header,
)
from barnabas.runtime.interfaces import File
from barnabas.types import Offset, Position

SEEK_CHUNK_BYTES = 8 << 10  # twice the default distance of index entries: one read mostly finds the batch
WALK_CHUNK_BYTES = 1 << 20

_seek_fields = Struct(">qi11xi").unpack_from  # base_offset, batch_length, last_offset_delta
_SEEK_BYTES = 27


class CorruptSegment(OSError):
    """Where a batch must be there is none: the disk has lost or changed what was written and synced."""

    def __init__(self, file: File, position: Position, problem: str) -> None:
        super().__init__(errno.EIO, f"{problem} at {position}", file.path)


class StoredBatch(NamedTuple):
    position: Position
    header: BatchHeader
    view: memoryview  # the whole batch


def find_batch(file: File, position: Position, end: Position, offset: Offset) -> Position:
    """Position of the first batch that ends at this offset or later; `end` if none does.  # benchmarks/log_read.py"""
    while position < end:
        chunk = file.read(position, min(SEEK_CHUNK_BYTES, end - position))
        inside = 0
        last = len(chunk) - _SEEK_BYTES
        if last < 0:
            raise CorruptSegment(file, position, "no batch header")
        while inside <= last:
            base_offset, batch_length, last_offset_delta = _seek_fields(chunk, inside)
            if base_offset + last_offset_delta >= offset:
                return position + inside
            if batch_length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
                raise CorruptSegment(file, position + inside, f"a batch length of {batch_length}")
            inside += LOG_OVERHEAD_BYTES + batch_length
        position += inside
    return end


def headers_from(
    file: File, position: Position, end: Position, chunk_bytes: int = WALK_CHUNK_BYTES
) -> Iterator[tuple[Position, BatchHeader]]:
    """Position and header of every batch, without its records. CorruptSegment where the file is not sound up to `end`.

    Whoever looks for something near reads it by `SEEK_CHUNK_BYTES`.
    """
    while position < end:
        chunk = file.read(position, min(chunk_bytes, end - position))
        inside = 0
        while inside + HEADER_BYTES <= len(chunk):
            try:
                header = read_header(chunk, inside)
            except InvalidRecordBatch as problem:
                raise CorruptSegment(file, position + inside, str(problem)) from None
            if position + inside + header.size_bytes > end:
                raise CorruptSegment(file, position + inside, "a batch that is cut short")
            yield position + inside, header
            inside += header.size_bytes
        if inside == 0:
            raise CorruptSegment(file, position, "no batch header")
        position += inside


def batches_from(
    file: File, position: Position, end: Position, chunk_bytes: int = WALK_CHUNK_BYTES
) -> Iterator[StoredBatch]:
    """Every batch whole, up to the first that is cut short or has no header; their CRC is the caller's to check."""
    while position < end:
        chunk = memoryview(file.read(position, min(chunk_bytes, end - position)))
        inside = 0
        while inside + HEADER_BYTES <= len(chunk):
            try:
                header = read_header(chunk, inside)
            except InvalidRecordBatch:
                return
            size = header.size_bytes
            if position + inside + size > end:
                return
            if inside + size > len(chunk):
                break
            yield StoredBatch(position + inside, header, chunk[inside : inside + size])
            inside += size
        if inside == 0:
            # Either the file ends here, or one batch is larger than a chunk.
            if len(chunk) < HEADER_BYTES:
                return
            size = read_header(chunk, 0).size_bytes
            yield StoredBatch(position, read_header(chunk, 0), memoryview(file.read(position, size)))
            inside = size
        position += inside
