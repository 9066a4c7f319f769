"""Files of a log directory, read without a broker and without changing a byte of them.

Owns which file is what, and the reading of batches and of index entries. A broker may be writing meanwhile: what is
read is what was there. Does not know: what is right (`segment_check`), how it is shown.
"""

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas.consensus import snapshot_file
from barnabas.log.mapped_index import CorruptIndex
from barnabas.log.offset_index import OffsetIndex
from barnabas.log.producer_state import SNAPSHOT_SUFFIX
from barnabas.log.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from barnabas.log.time_index import TimeEntry, TimeIndex
from barnabas.log.transaction_index import AbortedTransaction, TransactionIndex
from barnabas.protocol.control_records import ControlRecordKind, decode_control_key, decode_transaction_marker
from barnabas.protocol.message import DecodeError, Structure, UnsupportedVersionError
from barnabas.protocol.record_batch import InvalidRecordBatch, Record
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.types import Offset, Position

SEGMENT_NAME = re.compile(r"(\d{20})(\.\w+)")
SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
KINDS = (
    LOG_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    snapshot_file.SUFFIX,
)


class ReadOnlyFile:
    """As `runtime.interfaces.File`, of which it only lets others read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: Position, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def is_cached(self, position: Position, size: int) -> bool:
        return True  # nobody waits while it is read

    def write(self, position: Position, data: Any) -> None:
        raise PermissionError(f"{self.path} is only read")

    def truncate(self, size: int) -> None:
        raise PermissionError(f"{self.path} is only read")

    def sync(self) -> None:
        raise PermissionError(f"{self.path} is only read")

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def base_offset(path: Path) -> Offset:
    """Of which segment the file is; that of a snapshot of the metadata is where it ends."""
    found = SEGMENT_NAME.fullmatch(path.name) or SNAPSHOT_NAME.fullmatch(path.name)
    return int(found[1]) if found else 0


def files_of(path: Path) -> list[Path]:
    """A file is itself; of a directory, all files of segments in it, and in the directories of partitions below it."""
    if path.is_file():
        return [path]
    found = sorted(each for each in path.iterdir() if each.is_file() and each.suffix in KINDS)
    for directory in sorted(each for each in path.iterdir() if each.is_dir()):
        found += sorted(each for each in directory.iterdir() if each.is_file() and each.suffix in KINDS)
    return found


def _in_memory(path: Path) -> MemoryDisk:
    """With a copy of the file, because an index maps its file for writing."""
    disk = MemoryDisk()
    disk.make_directories("/copy")
    data = path.read_bytes()
    disk.open(f"/copy/{path.name}").write(0, data)
    return disk


def offset_entries(path: Path) -> list[tuple[Offset, Position]]:
    """Those of an index that is preallocated end where zeros begin. CorruptIndex where the size is impossible."""
    index = OffsetIndex(_in_memory(path), f"/copy/{path.name}", base_offset(path), 0)
    index.load()
    entries = [index.entry(number) for number in range(index.entry_count)]
    while entries and entries[-1] == (index.base_offset, 0):
        entries.pop()
    return entries


def time_entries(path: Path) -> list[TimeEntry]:
    index = TimeIndex(_in_memory(path), f"/copy/{path.name}", base_offset(path), 0)
    index.load()
    entries = [index.entry(number) for number in range(index.entry_count)]
    while entries and entries[-1] == (0, index.base_offset):
        entries.pop()
    return entries


def aborted_transactions(path: Path) -> list[AbortedTransaction]:
    """CorruptIndex where the size is impossible, CorruptTransactionIndex where an entry is."""
    index = TransactionIndex(_in_memory(path), f"/copy/{path.name}", base_offset(path))
    if path.stat().st_size:
        index.check()
        return index.entries()
    return []


class Decoded(NamedTuple):
    """What a record of an internal topic says, as plain values."""

    key: Any
    value: Any


class Decoder:
    """Keys and values as text, or as what they mean where the topic is one of the broker's own."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, record: Record, is_control: bool) -> Decoded:
        try:
            if is_control:
                return _control(record)
            if self._topic == "__cluster_metadata":
                return self._metadata(record)
            if self._topic in ("__consumer_offsets", "__transaction_state"):
                return self._coordinator(record)
        except (DecodeError, InvalidRecordBatch) as error:
            return Decoded(f"cannot be decoded: {error}", record.value)
        return Decoded(record.key, record.value)

    def _metadata(self, record: Record) -> Decoded:
        from barnabas.protocol.metadata_records import decode_record

        message = decode_record(record.value or b"")
        return Decoded(record.key, {type(message).__name__: structure(message)})

    def _coordinator(self, record: Record) -> Decoded:
        if self._topic == "__consumer_offsets":
            from barnabas.groups.records import decode
        else:
            from barnabas.transactions.transaction import decode
        found = decode(record.key or b"", record.value)
        if found is None:
            return Decoded(record.key, record.value)
        value = None if found.value is None else {type(found.value).__name__: structure(found.value)}
        return Decoded({type(found.key).__name__: structure(found.key)}, value)


def topic_of(path: Path) -> str:
    """By the name of the directory that the file lies in, `<topic>-<partition>`."""
    return path.resolve().parent.name.rpartition("-")[0]


_CONTROL_MODULES = {
    ControlRecordKind.LEADER_CHANGE: "leader_change_message",
    ControlRecordKind.SNAPSHOT_HEADER: "snapshot_header_record",
    ControlRecordKind.SNAPSHOT_FOOTER: "snapshot_footer_record",
    ControlRecordKind.KRAFT_VERSION: "kraft_version_record",
    ControlRecordKind.KRAFT_VOTERS: "voters_record",
}


def _control(record: Record) -> Decoded:
    kind = decode_control_key(record.key)
    if kind is None:
        return Decoded("unknown", record.value)
    marker = decode_transaction_marker(record)
    if marker is not None:
        return Decoded(kind.name.lower(), {"coordinator_epoch": marker.coordinator_epoch})
    module = _CONTROL_MODULES[kind]
    name = "".join(word.capitalize() for word in module.split("_"))
    message_class = getattr(importlib.import_module(f"barnabas.protocol.messages.{module}"), name)
    value = record.value or b""
    try:
        message, _end = message_class.decode(memoryview(value), 0, int.from_bytes(value[:2], "big"))  # its own version
    except UnsupportedVersionError as error:
        raise DecodeError(str(error)) from None
    return Decoded(kind.name.lower(), structure(message))


def structure(value: Any) -> Any:
    """A message as plain values."""
    if isinstance(value, Structure):
        names = [name for parent in reversed(type(value).__mro__) for name in getattr(parent, "__slots__", ())]
        return {name: structure(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [structure(item) for item in value]
    if isinstance(value, bytes | memoryview) and len(value) == 16:
        from barnabas.types import uuid_text

        return uuid_text(bytes(value))
    return value


def walk_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of any index or snapshot file. CorruptIndex and its kin where the file cannot be one."""
    if path.suffix == INDEX_SUFFIX:
        yield from ({"offset": offset, "position": position} for offset, position in offset_entries(path))
    elif path.suffix == TIME_INDEX_SUFFIX:
        yield from ({"timestamp_ms": entry.timestamp_ms, "offset": entry.offset} for entry in time_entries(path))
    elif path.suffix == TRANSACTION_INDEX_SUFFIX:
        yield from (aborted._asdict() for aborted in aborted_transactions(path))
    elif path.suffix == SNAPSHOT_SUFFIX:
        yield from producers(path)
    else:
        raise CorruptIndex(f"{path} is no file of a segment")


def producers(path: Path) -> Iterator[dict[str, Any]]:
    """CorruptSnapshot where the file is not whole."""
    from barnabas.log.producer_state import decode_snapshot

    for state in decode_snapshot(path.read_bytes()):
        last = state.last_batch
        yield {
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_offset": -1 if last is None else last.last_offset,
            "last_timestamp_ms": state.last_timestamp_ms,
            "coordinator_epoch": state.coordinator_epoch,
            "transaction_first_offset": state.transaction_first_offset,
        }
