"""Producer state from what is on disk: a snapshot, then the batches behind it.

Always holds: a snapshot named N holds exactly what the batches below offset N say; one that was not written whole is
removed and an older one taken. Replaying is the same whether after a crash, a truncation or a clean stop.
Does not know: when snapshots are due.
"""

from collections.abc import Collection, Sequence

from barnabas.log.producer_state import SNAPSHOT_SUFFIX, CorruptSnapshot, ProducerStates, snapshot_file_name
from barnabas.log.scan import headers_from
from barnabas.log.segment import Segment
from barnabas.log.transaction_index import AbortedTransaction
from barnabas.protocol.control_records import TransactionMarker, decode_transaction_marker
from barnabas.protocol.record_batch import decode_records
from barnabas.runtime.interfaces import Buffer, Disk
from barnabas.types import Offset, Position


def snapshot_offsets(names: Sequence[str]) -> list[Offset]:
    """Ascending; names that are no snapshot of producers (the metadata log has others) are left out."""
    stems = [name[: -len(SNAPSHOT_SUFFIX)] for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


class ProducerSnapshots:
    """The snapshots of one log: one at the start of each segment, as far as they are known, and one at a clean end."""

    __slots__ = ("_directory", "_disk", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: list[Offset]) -> None:
        self._disk = disk
        self._directory = directory
        self.offsets = offsets  # ascending

    def path(self, offset: Offset) -> str:
        return f"{self._directory}/{snapshot_file_name(offset)}"

    def take(self, offset: Offset, producers: ProducerStates) -> bool:
        """Writes what is known now, at the end of the log; gives whether that was not written yet.

        Not synced: one that a crash tears is known by its CRC, and an older one serves as well.
        """
        if self.offsets and self.offsets[-1] >= offset:
            return False
        self.write(offset, producers.encode())
        return True

    def write(self, offset: Offset, data: bytes) -> None:
        assert not self.offsets or self.offsets[-1] < offset
        file = self._disk.open(self.path(offset))
        try:
            file.truncate(0)
            file.write(0, data)
        finally:
            file.close()
        self.offsets.append(offset)

    def load_newest(
        self, offset_max: Offset, producers: ProducerStates, now_ms: int, expiration_ms: int
    ) -> Offset | None:
        """Fills `producers` from the newest sound one, and gives its offset. Those above the limit, and unsound ones,
        are removed: they may stem from records that are gone."""
        while self.offsets:
            offset = self.offsets[-1]
            if offset <= offset_max:
                try:
                    producers.load(self._disk.read_bytes(self.path(offset)), now_ms, expiration_ms)
                except CorruptSnapshot:
                    pass
                else:
                    return offset
            self._disk.remove(self.path(offset))
            self.offsets.pop()
        producers.clear()
        return None

    def remove_all(self) -> None:
        while self.offsets:
            self.remove(self.offsets[-1])

    def remove(self, offset: Offset) -> None:
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._disk.remove(self.path(offset))


def marker_in(batch: Buffer) -> TransactionMarker | None:
    """The marker of a control batch; None where it holds something else."""
    records = decode_records(batch)
    return decode_transaction_marker(records[0]) if records else None


def replay(
    producers: ProducerStates,
    segments: Sequence[Segment],
    first_offset: Offset,
    *,
    indexed_from: Offset,
    without_producers: Collection[Offset] = (),
) -> list[tuple[Offset, bytes]]:
    """Appends every batch of a producer from `first_offset` on; gives a snapshot for each segment begun on the way.

    Segments from `indexed_from` on get their transaction index anew. Those that are known to have no producers, by
    their base offset, are not read.
    """
    snapshots = []
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        if not is_last and segments[number + 1].base_offset <= first_offset:
            continue
        if segment.base_offset > first_offset:
            snapshots.append((segment.base_offset, producers.encode()))
        reindexes = segment.base_offset >= indexed_from
        if reindexes:
            segment.transaction_index.reset()
        if segment.base_offset in without_producers:
            continue
        start = segment.position_of(first_offset) if segment.base_offset < first_offset else 0
        replay_segment(producers, segment, start, reindexes)
        if not is_last:
            segment.release()
    return snapshots


def replay_segment(producers: ProducerStates, segment: Segment, position: Position, reindexes: bool) -> None:
    for found, header in headers_from(segment.file(), position, segment.size_bytes):
        if header.producer_id < 0:
            continue
        marker = marker_in(segment.file().read(found, header.size_bytes)) if header.is_control else None
        completed = producers.append(header, marker=marker)
        if completed is not None and completed.aborted and reindexes:
            segment.transaction_index.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    completed.last_stable_offset,
                )
            )
