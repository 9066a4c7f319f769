"""How what is to be read is cut into tasks.

By bytes: a partition with ten times the data gets ten times the tasks, so that a skewed topic is read in parallel.
Always holds: the splits of a partition cover its range, without gap or overlap, in order.
Does not know: where bytes or offsets come from; how much a record weighs is told.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil

from barnabas.spark.offsets import Range
from barnabas.types import TopicPartition


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
