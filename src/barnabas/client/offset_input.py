"""Partitions, offsets and moments as applications give them: checked, and in one form.

Always holds: what is of the wrong type raises TypeError with what to write instead, a number that none of them can be
raises IllegalStateError. What passes can be encoded.
"""

from collections.abc import Mapping
from typing import Any

from barnabas.client.errors import IllegalStateError
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.client.record_input import as_number
from barnabas.config.validation import LONG_MAX
from barnabas.types import TopicPartition


def as_partition(given: Any) -> TopicPartition:
    if not isinstance(given, tuple | list) or len(given) != 2 or not isinstance(given[0], str):
        raise TypeError(f"a partition must be a TopicPartition, or a topic and a number, not {given!r}")
    return TopicPartition(given[0], as_number(given[1], f"the partition of {given[0]}"))


def as_offset(given: Any, *, advice: str) -> OffsetAndMetadata:
    found = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    offset = as_number(found.offset, "an offset")
    if not 0 <= offset <= LONG_MAX:
        raise IllegalStateError(f"{offset} is no offset{advice}")
    return found._replace(offset=offset)


def as_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """To commit. A number will do."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for given, offset in offsets.items():
        partition = as_partition(given)
        found[partition] = as_offset(offset, advice=f" to commit for {partition}")
    return found


def as_moment_ms(given: Any, partition: TopicPartition) -> int:
    timestamp_ms = as_number(given, f"the moment for {partition}")
    if not 0 <= timestamp_ms <= LONG_MAX:
        raise IllegalStateError(f"{timestamp_ms} is no moment for {partition}; use end_offsets or the like")
    return timestamp_ms
