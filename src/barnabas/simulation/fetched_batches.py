"""What the whole batches of a fetch hold, as a consumer takes them.

Always holds: a fetch may end within a batch, which is then asked for again; the next offset is that after the last
whole batch, which is more than the last record's where markers or compaction left nothing to be given.
Does not know: who reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.protocol.control_records import decode_transaction_marker
from barnabas.protocol.messages.fetch import AbortedTransaction
from barnabas.protocol.record_batch import HEADER_BYTES, BatchHeader, Record, decode_records, read_header
from barnabas.types import Offset, ProducerId


class BatchesRead(NamedTuple):
    records: list[Record]
    markers: list[Offset]
    next_offset: Offset


def read_batches(records: Any, offset: Offset, aborted: Sequence[AbortedTransaction] | None = None) -> BatchesRead:
    """From `offset` on; with read_committed without those of the aborted transactions that the broker names."""
    view = memoryview(records or b"")
    skipping = _Aborted(aborted or ())
    found: list[Record] = []
    markers: list[Offset] = []
    position = 0
    next_offset = offset
    while position + HEADER_BYTES <= len(view):
        header = read_header(view, position)
        if position + header.size_bytes > len(view):
            break
        skipped = skipping.covers(header)
        if header.is_control:
            for control in decode_records(view, position):  # compaction may have left none
                marker = decode_transaction_marker(control)
                if marker is not None and not marker.committed:
                    skipping.ended(header.producer_id)
                markers.append(control.offset)
        elif not skipped:
            found += decode_records(view, position)
        position += header.size_bytes
        next_offset = max(next_offset, header.next_offset)
    return BatchesRead(
        [record for record in found if record.offset >= offset],
        [marker for marker in markers if marker >= offset],
        next_offset,
    )


class _Aborted:
    """Whose records are aborted at the point that is being read."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._beginning = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
        self._now: dict[ProducerId, None] = {}

    def covers(self, header: BatchHeader) -> bool:
        while self._beginning and self._beginning[-1][0] <= header.last_offset:
            self._now[self._beginning.pop()[1]] = None
        return header.is_transactional and header.producer_id in self._now

    def ended(self, producer_id: ProducerId) -> None:
        self._now.pop(producer_id, None)
