"""Small words for tests of the log: configs, batches, and reading all of it back."""

from barnabas.config.broker import BrokerConfig
from barnabas.config.topic import TopicConfig
from barnabas.log.log import AppendInfo, Log
from barnabas.log.time_lookup import TimestampOffset
from barnabas.protocol.compression import Codec
from barnabas.protocol.record_batch import Record, decode_records, encode_batch, read_headers
from barnabas.runtime.memory_disk import MemoryDisk
from barnabas.simulation.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
SMALL = {"segment_bytes": 600, "index_interval_bytes": 150}  # a few batches a segment


def simulated_disk() -> SimulatedDisk:
    """With a data directory that survives."""
    disk = SimulatedDisk()
    disk.make_directories("/data")
    disk.sync_directory("")
    return disk


def topic_config(**settings: object) -> TopicConfig:
    """`segment_bytes=500` sets Kafka's internal name for it, which has no lower limit."""
    overrides = {name.replace("_", "."): str(value) for name, value in settings.items()}
    if "segment.bytes" in overrides:
        overrides["internal.segment.bytes"] = overrides.pop("segment.bytes")
    return TopicConfig(overrides, BrokerConfig({}))


def records(count: int = 1, *, timestamp_ms: int = NOW_MS, size: int = 20, first: int = 0) -> list[Record]:
    return [
        Record(n, timestamp_ms + n, b"key-%06d" % (first + n), (b"value-%d " % (first + n)).ljust(size, b"."))
        for n in range(count)
    ]


def batch(
    count: int = 1,
    *,
    timestamp_ms: int = NOW_MS,
    size: int = 20,
    first: int = 0,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> memoryview:
    return memoryview(
        encode_batch(
            records(count, timestamp_ms=timestamp_ms, size=size, first=first),
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
    )


def append(log: Log, count: int = 1, *, leader_epoch: int = 0, now_ms: int = NOW_MS, **settings: object) -> AppendInfo:
    """A batch that must be accepted."""
    info = log.append_as_leader(batch(count, first=log.log_end_offset, **settings), leader_epoch, now_ms)  # type: ignore[arg-type]
    assert info.error == 0, info
    log.high_watermark = log.log_end_offset
    return info


def filled(disk: MemoryDisk | SimulatedDisk, count: int = 30) -> Log:
    """Of several small segments and leader epochs, by one producer."""
    log = Log.open(disk, DIRECTORY, topic_config(**SMALL), NOW_MS)
    for sequence in range(count):
        append(log, leader_epoch=sequence // 10, producer_id=9, producer_epoch=0, base_sequence=sequence)
    return log


def read_all(log: Log, end_offset: int | None = None, size_bytes_max: int = 1 << 20) -> list[Record]:
    """Every record from the log start on, as a consumer fetches them."""
    end_offset = log.log_end_offset if end_offset is None else end_offset
    found: list[Record] = []
    offset = log.log_start_offset
    while (part := log.read(offset, size_bytes_max, end_offset)) is not None:
        data = memoryview(part.read())
        for position, header in whole_batches(data):
            found += [record for record in decode_records(data, position) if record.offset >= offset]
            offset = header.next_offset
    return found


def whole_batches(data: memoryview) -> list[tuple[int, object]]:
    """As a client does it: what is cut at the end is left out."""
    found = []
    position = 0
    while len(data) - position >= 12:
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if size > len(data) - position:
            break
        found += [(position + at, header) for at, header in read_headers(data[position : position + size])]
        position += size
    return found


def offset_for_timestamp(log: Log, timestamp_ms: int) -> TimestampOffset | None:
    """The first record that is at least so late, as ListOffsets looks for it."""
    candidate = log.times.first_at_or_after(timestamp_ms, log.log_start_offset)
    while candidate is not None:
        found = candidate.search()
        if found is not None:
            return found
        candidate = log.times.first_at_or_after(timestamp_ms, candidate.header.next_offset)
    return None


def offset_of_max_timestamp(log: Log) -> TimestampOffset | None:
    candidate = log.times.latest()
    return None if candidate is None else candidate.search()
