"""How what is to be read is cut into tasks.

By bytes: a partition with ten times the data gets ten times the tasks, so that a skewed topic is read in parallel, and
partitions with little share a task, for a task costs more than reading them.
Always holds: the splits of a partition cover its range, without gap or overlap, in order.
Does not know: where bytes or offsets come from; how much a record weighs is told.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil

from barnabas.spark.reading.offsets import Range
from barnabas.types import TopicPartition

# A task that reads and writes needs two Python workers; reading a megabyte takes less (docs/decisions/0005).
SHARED_BYTES_MAX = 1 << 20


def split_ranges(
    ranges: Sequence[Range],
    bytes_per_record: Mapping[TopicPartition, float],
    *,
    split_bytes: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[Range]:
    """Ranges of about `split_bytes` each, more of them where `min_partitions` wants it; none of more records than
    `max_records`."""
    counts = [each.end_offset - each.first_offset for each in ranges]
    weights = [
        count * max(bytes_per_record.get(each.partition, 1.0), 1e-9) for each, count in zip(ranges, counts, strict=True)
    ]
    pieces = [max(1, ceil(weight / split_bytes)) for weight in weights]
    wanted = min_partitions or 0
    total = sum(weights)
    if sum(pieces) < wanted and total > 0:
        # As many more for each as its share of the bytes, and never fewer than it has already.
        share = [wanted * weight / total for weight in weights]
        pieces = [max(piece, ceil(each)) for piece, each in zip(pieces, share, strict=True)]
    if max_records is not None:
        pieces = [max(piece, ceil(count / max_records)) for piece, count in zip(pieces, counts, strict=True)]
    return [
        part
        for each, piece, count in zip(ranges, pieces, counts, strict=True)
        for part in _cut(each, min(piece, count))
    ]


def _cut(whole: Range, pieces: int) -> list[Range]:
    """So many parts whose sizes differ by at most one record."""
    first, count = whole.first_offset, whole.end_offset - whole.first_offset
    bounds = [first + count * number // pieces for number in range(pieces + 1)] if pieces else []
    return [Range(whole.partition, *pair) for pair in pairwise(bounds)]


def gather(
    ranges: Sequence[Range], bytes_per_record: Mapping[TopicPartition, float], *, bytes_max: int, records_max: int
) -> list[list[Range]]:
    """Neighbours for one task, as long as they are small together."""
    tasks: list[list[Range]] = []
    left_bytes, left_records = 0.0, 0
    for each in ranges:
        records = each.end_offset - each.first_offset
        size_bytes = records * bytes_per_record[each.partition]
        if not tasks or size_bytes > left_bytes or records > left_records:
            tasks.append([])
            left_bytes, left_records = float(bytes_max), records_max
        tasks[-1].append(each)
        left_bytes -= size_bytes
        left_records -= records
    return tasks
