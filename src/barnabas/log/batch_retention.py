"""What compaction keeps of one batch: the records that are the last of their key, tombstones and markers for a while.

A batch with nothing left goes, but for that of a producer's last sequence and the last one of the part that is cleaned:
of these the header stays. Tombstones, and markers of transactions of which nothing is left, get a delete horizon when
they are first seen so, `delete.retention.ms` from then on; once it has passed they go (KIP-534).
Always holds: batches are given in offset order, from the beginning of the log. Records of aborted transactions go at
once; a marker stays as long as any batch of its transaction, because readers need it to tell whether to show them.
Does not know: files, segments.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.log.offset_map import OffsetMap
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.checksum import Buffer
from barnabas.protocol.control_records import decode_transaction_marker
from barnabas.protocol.record_batch import BatchHeader, decode_records
from barnabas.protocol.record_filter import PlacedRecord, batch_of, empty_batch, unpack
from barnabas.types import NO_OFFSET, Offset, ProducerId


class LastRecord(NamedTuple):
    """How a producer was last heard: by its last batch of data, or where it has none by the epoch of a marker."""

    data_offset: Offset  # -1 where there is none
    producer_epoch: int


class CleanedTransactions:
    """Which transactions had batches in what was read so far, and which of them were aborted."""

    __slots__ = ("_aborted", "_coming", "_committed")

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # By first offset, the last first: those that begin at the batches to come.
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        # Aborted ones whose marker is still to come, by producer; True once a batch of theirs was seen.
        self._aborted: dict[ProducerId, tuple[AbortedTransaction, bool]] = {}
        self._committed: dict[ProducerId, None] = {}  # with batches seen and no marker yet; a dict for its order

    def read_batch(self, header: BatchHeader) -> bool:
        """Whether this batch of data was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed[header.producer_id] = None
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def read_marker(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """Whether nothing is left of the transaction that this control batch ends, and its entry for the index."""
        self._begin_up_to(header.last_offset)
        records = decode_records(batch)
        if not records:
            return True, None  # emptied before
        marker = decode_transaction_marker(records[0])
        if marker is None:
            return False, None
        if marker.committed:
            if header.producer_id not in self._committed:
                return True, None
            del self._committed[header.producer_id]
            return False, None
        transaction, has_batches = self._aborted.pop(header.producer_id, (None, False))
        return not has_batches, transaction if has_batches else None

    def _begin_up_to(self, offset: Offset) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted.setdefault(transaction.producer_id, (transaction, False))


class BatchRetention:
    __slots__ = ("_delete_retention_ms", "_end_offset", "_last_records", "_map", "_now_ms", "_transactions")

    def __init__(
        self,
        *,
        offsets: OffsetMap,
        aborted: Iterable[AbortedTransaction],
        last_records: Mapping[ProducerId, LastRecord],
        end_offset: Offset,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offsets
        self._transactions = CleanedTransactions(aborted)
        self._last_records = last_records
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def kept(self, header: BatchHeader, batch: memoryview) -> tuple[Buffer | None, AbortedTransaction | None]:
        """What becomes of a batch, None where it goes, and the entry of the transaction index that its marker keeps."""
        if header.is_control:
            is_over, transaction = self._transactions.read_marker(header, batch)
            return self._kept_marker(header, batch, is_over), transaction
        if self._transactions.read_batch(header):
            return self._kept_empty(header), None
        return self._kept_data(header, batch), None

    def _kept_marker(self, header: BatchHeader, batch: memoryview, is_over: bool) -> Buffer | None:
        horizon_ms = header.delete_horizon_ms
        if header.record_count == 0 or (is_over and horizon_ms is not None and horizon_ms <= self._now_ms):
            return self._kept_empty(header)
        if is_over and horizon_ms is None:
            data, records = unpack(batch, header)
            return batch_of(header, data, records, self._now_ms + self._delete_retention_ms)
        return batch

    def _kept_data(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        data, records = unpack(batch, header)
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        kept = self._last_of_their_keys(records, header.base_offset)
        if not keeps_tombstones:
            latest_delta = self._map.latest_offset - header.base_offset
            kept = [record for record in kept if record.has_value or record.offset_delta > latest_delta]
        if not kept:
            return self._kept_empty(header)
        if horizon_ms is None and not all(record.has_value for record in kept):
            horizon_ms = self._now_ms + self._delete_retention_ms
        elif len(kept) == len(records):
            return batch
        return batch_of(header, data, kept, horizon_ms)

    def _last_of_their_keys(self, records: list[PlacedRecord], base_offset: Offset) -> list[PlacedRecord]:
        """A record beyond what the map covers stays too; one without a key is from before the topic was compacted."""
        latest_delta = self._map.latest_offset - base_offset
        last_offsets = self._map.get_all([record[1] or b"" for record in records])
        return [
            record
            for record, last_offset in zip(records, last_offsets, strict=True)
            if (base_offset + record[0] >= last_offset and record[1] is not None) or record[0] > latest_delta
        ]

    def _kept_empty(self, header: BatchHeader) -> Buffer | None:
        if header.next_offset == self._end_offset or self._is_last_of_producer(header):
            return empty_batch(header)
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.data_offset != NO_OFFSET:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch
