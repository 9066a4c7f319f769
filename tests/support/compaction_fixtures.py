"""Small words for tests of compaction: one whole round of it, and what readers then see."""

from collections.abc import Callable

from log_fixtures import read_all, whole_batches

from barnabas.log.cleaner import Cleaned, CleanedGroup, clean
from barnabas.log.cleaning import Buffers, Cleaning
from barnabas.log.log import Log
from barnabas.protocol.control_records import decode_transaction_marker
from barnabas.protocol.record_batch import Record, decode_records
from barnabas.runtime.interfaces import Disk
from barnabas.server.replicas.log_cleaner import cleanable_part

BUFFERS = Buffers(map_bytes=1 << 20, map_load_factor=0.9, io_bytes=300)


def compact(
    disk: Disk,
    log: Log,
    now_ms: int,
    *,
    buffers: Buffers = BUFFERS,
    on_step: Callable[[], object] = lambda: None,
    sync: bool = True,
) -> Cleaned | None:
    """One round, as the broker does it, however small the dirty part; None where there is none."""
    part = cleanable_part(log, now_ms)
    if part.dirty_bytes == 0:
        return None
    if log.recovery_point < part.end_offset:
        log.flush_finished()
    cleaning = Cleaning(log, part, buffers, now_ms)
    for step in clean(disk, cleaning.request):
        if isinstance(step, CleanedGroup):
            assert cleaning.swap_in(step, now_ms)
        elif isinstance(step, Cleaned):
            if sync:
                log.flush_finished()
            log.swap.cleaned_offset = step.end_offset
            return step
        on_step()
    raise AssertionError("a cleaning ends with what it did")


def read_committed(log: Log) -> list[Record]:
    """As a consumer does it: aborted transactions are skipped, by what the log says of them."""
    end_offset = log.last_stable_offset
    found: list[Record] = []
    offset = log.log_start_offset
    while (part := log.read(offset, 1 << 20, end_offset)) is not None:
        coming = sorted(log.aborted_transactions(offset, part), key=lambda each: each.first_offset)
        skipped: dict[int, None] = {}
        data = memoryview(part.read())
        batches = whole_batches(data)
        assert batches, f"no whole batch at {offset}"
        for position, header in batches:
            while coming and coming[0].first_offset <= header.last_offset:  # type: ignore[attr-defined]
                skipped[coming.pop(0).producer_id] = None
            records = decode_records(data, position)
            producer_id = header.producer_id  # type: ignore[attr-defined]
            if header.is_control:  # type: ignore[attr-defined]
                marker = decode_transaction_marker(records[0]) if records else None
                if marker is not None and not marker.committed:
                    skipped.pop(producer_id, None)
            elif not (header.is_transactional and producer_id in skipped):  # type: ignore[attr-defined]
                found += records
            offset = header.next_offset  # type: ignore[attr-defined]
    return found


def last_values(records: list[Record]) -> dict[bytes, bytes | None]:
    """By key; a tombstone is the same as nothing."""
    found: dict[bytes, bytes | None] = {}
    for record in records:
        assert record.key is not None
        found.pop(record.key, None)
        if record.value is not None:
            found[record.key] = record.value
    return found


__all__ = ["BUFFERS", "compact", "last_values", "read_all", "read_committed"]
