"""From the files of a partition to a log that can be used.

After a clean stop no batch is read but those behind the last index entry, and what a damaged index is rebuilt from.
After a crash everything from the recovery point's segment on is checked batch by batch: CRC, offsets and leader epochs
that never fall. The first that fails, and all behind it, is cut; indexes, leader epochs and producers are taken anew
from what is left.

Always holds: what was below the recovery point is kept, because the point moved only after it was synced; of the rest,
a prefix is kept. Does not know: where recovery point and log start are written down.
"""

from dataclasses import dataclass

from barnabas.config.topic import TopicConfig
from barnabas.log.checkpoint import (
    PARTITION_METADATA_FILE_NAME,
    CheckpointError,
    decode_partition_metadata,
    encode_partition_metadata,
)
from barnabas.log.interrupted_swaps import finish_swaps
from barnabas.log.leader_epochs import LEADER_EPOCH_FILE_NAME, LeaderEpochs
from barnabas.log.offset_index import RELATIVE_OFFSET_MAX
from barnabas.log.producer_replay import ProducerSnapshots, replay, snapshot_offsets
from barnabas.log.producer_state import ProducerStates, stray_snapshots
from barnabas.log.scan import batches_from, headers_from
from barnabas.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Segment
from barnabas.log.transaction_index_repair import TransactionIndexRepair
from barnabas.protocol.record_batch import LOG_OVERHEAD_BYTES, crc_matches
from barnabas.runtime.interfaces import Disk
from barnabas.types import Offset, Uuid


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """`segments` is never empty; its last one is the active one."""

    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    producers: ProducerStates
    leader_epochs: LeaderEpochs
    snapshots: ProducerSnapshots
    recovered: list[Segment]  # not synced since
    cut_bytes: int  # that were there and are not any more
    is_new: bool  # there was no segment: the one here was just made


class Recovered:
    """The segments that were checked and perhaps cut, the base offsets of those without a producer's batch, the cut."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.without_producers: set[Offset] = set()
        self.cut_bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    disk: Disk
    directory: str
    config: TopicConfig
    now_ms: int
    recovery_point: Offset
    log_start_offset: Offset
    clean_shutdown: bool
    producer_id_expiration_ms: int

    def segment(self, base_offset: Offset) -> Segment:
        return new_segment(self.disk, self.directory, base_offset, self.config, self.now_ms)


def new_segment(disk: Disk, directory: str, base_offset: Offset, config: TopicConfig, now_ms: int) -> Segment:
    return Segment(
        disk,
        directory,
        base_offset,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        segment_jitter_ms=min(config.segment_jitter_ms, config.segment_ms),
        now_ms=now_ms,
    )


def load(request: LoadRequest) -> LoadedLog:
    disk, directory = request.disk, request.directory
    try:
        names = disk.list_directory(directory)
    except FileNotFoundError:
        disk.make_directories(directory)
        names = []
    names = finish_swaps(disk, directory, names)
    names = remove_remains(disk, directory, names)
    segments = open_segments(request, names)
    leader_epochs = load_leader_epochs(disk, directory)
    recovered = Recovered()
    if request.clean_shutdown:
        if not len(leader_epochs):
            rebuild_leader_epochs(segments, leader_epochs)
    else:
        recovered = recover(request, segments, leader_epochs)
    cut_bytes = recovered.cut_bytes
    log_end_offset = segments[-1].end_offset() if segments else request.log_start_offset
    if log_end_offset < request.log_start_offset:
        # The files went missing, or were never synced: what is left is older than everything that may be read.
        cut_bytes += sum(segment.size_bytes for segment in segments)
        remove_segments(disk, segments)
        segments, recovered, log_end_offset = [], Recovered(), request.log_start_offset
    is_new = not segments
    if is_new:
        segments = [request.segment(request.log_start_offset)]
        segments[0].create()
    log_start_offset = max(request.log_start_offset, segments[0].base_offset)
    leader_epochs.truncate_from_end(log_end_offset)
    leader_epochs.truncate_from_start(log_start_offset)
    producers, snapshots = load_producers(request, names, segments, log_start_offset, log_end_offset, recovered)
    TransactionIndexRepair(
        disk=disk,
        directory=directory,
        segments=segments,
        snapshots=snapshots,
        now_ms=request.now_ms,
        producer_id_expiration_ms=request.producer_id_expiration_ms,
    ).check_all(names)
    return LoadedLog(
        segments=segments,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        recovery_point=log_end_offset if request.clean_shutdown else min(request.recovery_point, log_end_offset),
        producers=producers,
        leader_epochs=leader_epochs,
        snapshots=snapshots,
        recovered=recovered.segments,
        cut_bytes=cut_bytes,
        is_new=is_new,
    )


def read_topic_id(disk: Disk, directory: str) -> Uuid | None:
    """The topic that these files belong to, as they say themselves; None where they do not, or not any more."""
    path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    try:
        return decode_partition_metadata(disk.read_bytes(path), path)
    except (FileNotFoundError, CheckpointError):
        return None


def keep_topic_id(disk: Disk, directory: str, topic_id: Uuid) -> bool:
    """Writes it down, unsynced, and gives whether it was not there. A crash that tears it has synced nothing yet."""
    if read_topic_id(disk, directory) is not None:
        return False
    file = disk.open(f"{directory}/{PARTITION_METADATA_FILE_NAME}")
    file.truncate(0)
    file.write(0, encode_partition_metadata(topic_id))
    file.close()
    return True


def remove_remains(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Removes what an earlier run meant to delete, and indexes without a log; gives the names that stay."""
    logs = {name[: -len(LOG_SUFFIX)] for name in names if name.endswith(LOG_SUFFIX)}
    kept = []
    for name in names:
        stem, _, suffix = name.partition(".")
        is_orphan = "." + suffix in SEGMENT_SUFFIXES and stem.isdecimal() and stem not in logs
        if name.endswith((DELETED_SUFFIX, ".tmp")) or is_orphan:
            disk.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept


def open_segments(request: LoadRequest, names: list[str]) -> list[Segment]:
    segments = []
    for name in names:  # sorted, and the names have leading zeros: by base offset
        stem = name[: -len(LOG_SUFFIX)]
        if name.endswith(LOG_SUFFIX) and stem.isdecimal():
            segment = request.segment(int(stem))
            segment.load()
            segments.append(segment)
    return segments


def load_leader_epochs(disk: Disk, directory: str) -> LeaderEpochs:
    """None of them where the file is missing, empty or broken."""
    path = f"{directory}/{LEADER_EPOCH_FILE_NAME}"
    try:
        return LeaderEpochs.decode(disk.read_bytes(path), path)
    except (FileNotFoundError, CheckpointError):
        return LeaderEpochs()


def rebuild_leader_epochs(segments: list[Segment], leader_epochs: LeaderEpochs) -> None:
    """From every batch: the file is lost, or has never been written. Nothing is read of a log without epochs."""
    for segment in segments:
        for _, header in headers_from(segment.file(), 0, segment.size_bytes):
            if header.leader_epoch < 0 and not len(leader_epochs):
                return
            if header.leader_epoch > leader_epochs.latest_epoch:
                leader_epochs.assign(header.leader_epoch, header.base_offset)
        if segment is not segments[-1]:
            segment.release()


def recover(request: LoadRequest, segments: list[Segment], leader_epochs: LeaderEpochs) -> Recovered:
    """Checks the segments from the recovery point on, and drops those behind a cut.

    A tail may be lost without a trace, at the end of a batch: then the next segment does not continue this one.
    Compaction leaves such gaps rightly, also in a topic that is not compacted any more: where sound batches before the
    gap show that it was at work, a gap is no loss.
    """
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= request.recovery_point:
        first += 1
    if not len(leader_epochs):
        rebuild_leader_epochs(segments[:first], leader_epochs)
    recovered = Recovered()
    is_compacted = "compact" in request.config.cleanup_policy  # or was, as its batches show
    for number, segment in enumerate(segments[first:], first):
        if number == first:
            leader_epochs.truncate_from_end(segment.base_offset)
        size_bytes = segment.size_bytes
        end_offset, has_producers, is_thinned = check_segment(segment, leader_epochs)
        recovered.segments.append(segment)
        if not has_producers:
            recovered.without_producers.add(segment.base_offset)
        is_cut = segment.size_bytes < size_bytes
        following = segments[number + 1 :]
        is_gap = bool(following) and following[0].base_offset != end_offset
        is_compacted = is_compacted or is_thinned
        if is_cut or (is_gap and not is_compacted):
            recovered.cut_bytes = size_bytes - segment.size_bytes + sum(each.size_bytes for each in following)
            # In this order, so that a crash in between leaves something that is cut again.
            remove_segments(request.disk, following)
            request.disk.sync_directory(request.directory)
            segment.file().truncate(segment.size_bytes)
            del segments[number + 1 :]
            break
        if following:
            segment.finish()
            segment.release()
    return recovered


def check_segment(segment: Segment, leader_epochs: LeaderEpochs) -> tuple[Offset, bool, bool]:
    """Counts the batches up to the first unsound one, and indexes them anew; what is behind it stays in the file.

    Gives the end offset, whether a batch has a producer, and whether offsets are missing, as compaction leaves it.
    """
    size_bytes = segment.size_bytes
    end_offset = segment.base_offset
    offset_max = end_offset + RELATIVE_OFFSET_MAX
    latest_epoch = leader_epochs.latest_epoch
    has_producers = is_thinned = False
    segment.reset_indexes(in_place=True)
    segment.size_bytes = 0
    for position, header, view in batches_from(segment.file(), 0, size_bytes):
        base_offset, batch_length, leader_epoch, _, _, _, last_offset_delta, _, max_timestamp_ms, producer_id = header[
            :10
        ]
        last_offset = base_offset + last_offset_delta
        if (
            not end_offset <= base_offset <= last_offset <= offset_max
            or 0 <= leader_epoch < latest_epoch
            or not crc_matches(view, 0, header)
        ):
            break
        segment.appended(position, LOG_OVERHEAD_BYTES + batch_length, base_offset, last_offset, max_timestamp_ms)
        if leader_epoch > latest_epoch:
            leader_epochs.assign(leader_epoch, base_offset)
            latest_epoch = leader_epoch
        has_producers = has_producers or producer_id >= 0
        is_thinned = is_thinned or base_offset != end_offset or header[12] != last_offset_delta + 1
        end_offset = last_offset + 1
    return end_offset, has_producers, is_thinned


def remove_segments(disk: Disk, segments: list[Segment]) -> None:
    """The last first, so that a crash in between leaves no gap."""
    for segment in reversed(segments):
        segment.release()
        for path in segment.paths():
            if disk.exists(path):
                disk.remove(path)


def load_producers(
    request: LoadRequest,
    names: list[str],
    segments: list[Segment],
    log_start_offset: Offset,
    log_end_offset: Offset,
    recovered: Recovered,
) -> tuple[ProducerStates, ProducerSnapshots]:
    """From the newest snapshot that stems from synced batches, then the batches behind it; and the snapshots left."""
    trusted_offset = recovered.segments[0].base_offset if recovered.segments else log_end_offset
    producers = ProducerStates()
    snapshots = ProducerSnapshots(request.disk, request.directory, snapshot_offsets(names))
    for offset in stray_snapshots(snapshots.offsets, [segment.base_offset for segment in segments]):
        snapshots.remove(offset)
    if not snapshots.offsets and request.clean_shutdown:
        return producers, snapshots  # a clean stop would have left one if there were anything to remember
    found = snapshots.load_newest(trusted_offset, producers, request.now_ms, request.producer_id_expiration_ms)
    first_offset = log_start_offset if found is None else max(found, log_start_offset)
    if first_offset < log_end_offset:
        for offset, data in replay(
            producers,
            segments,
            first_offset,
            indexed_from=trusted_offset,
            without_producers=recovered.without_producers,
        ):
            snapshots.write(offset, data)
    producers.advance(log_start_offset)
    return producers, snapshots
