"""The place of a stream, as Spark keeps it in the checkpoint, and how far one batch may go.

    {"orders": {"0": 596, "1": 17}, "#began": {"orders": {"0": 576}}, "#topicIds": {"orders": "AAAA…"}}

Names with # are no topics. `#began` of a batch's end says where the batch begins in partitions whose beginning the end
before does not say: all of them in the first batch, new ones, and those whose log is not what it was. Spark keeps a
batch's end before it runs it, so a failed first batch begins again where it began, though Spark keeps no beginning.
Always holds: what is decoded from an encoded place equals it; a limit leaves each end between the start and what is
there, and at least one record to read where there is one. Does not know: brokers, time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from barnabas.spark.reading.offsets import decode_offsets, encode_offsets
from barnabas.types import Offset, TopicPartition, Uuid, uuid_from_text, uuid_text

BEGAN, TOPIC_IDS, INITIAL = "#began", "#topicIds", "#initial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    offsets: dict[TopicPartition, Offset]
    began: dict[TopicPartition, Offset] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    is_initial: bool = False  # no batch has ended here; not yet durable

    def encode(self) -> dict[str, Any]:
        found: dict[str, Any] = {**encode_offsets(self.offsets)}
        if self.began:
            found[BEGAN] = encode_offsets(self.began)
        if self.topic_ids:
            found[TOPIC_IDS] = {topic: uuid_text(topic_id) for topic, topic_id in sorted(self.topic_ids.items())}
        if self.is_initial:
            found[INITIAL] = True
        return found


def decode_place(stored: Mapping[str, Any]) -> Place:
    return Place(
        offsets=decode_offsets({name: value for name, value in stored.items() if not name.startswith("#")}),
        began=decode_offsets(stored.get(BEGAN, {})),
        topic_ids={topic: uuid_from_text(text) for topic, text in stored.get(TOPIC_IDS, {}).items()},
        is_initial=bool(stored.get(INITIAL, False)),
    )


def limit_records(
    start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset], records_max: int
) -> dict[TopicPartition, Offset]:
    """Ends so that at most so many offsets are read, of each partition its share of what it lags behind."""
    return _shares(start, end, dict.fromkeys(end, 1.0), float(records_max))


def limit_bytes(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    bytes_per_record: Mapping[TopicPartition, float],
    bytes_max: int,
) -> dict[TopicPartition, Offset]:
    """As `limit_records`, by what records weigh."""
    return _shares(start, end, bytes_per_record, float(bytes_max))


def _shares(
    start: Mapping[TopicPartition, Offset],
    end: Mapping[TopicPartition, Offset],
    weights: Mapping[TopicPartition, float],
    most: float,
) -> dict[TopicPartition, Offset]:
    lags = {each: max(0, end[each] - start.get(each, end[each])) for each in end}
    total = sum(lag * weights.get(each, 1.0) for each, lag in lags.items())
    if total <= most:
        return dict(end)
    share = most / total
    found = {each: end[each] - lags[each] for each in end}
    left = most
    for number, each in enumerate(sorted(end, key=lambda each: (-lags[each], each))):
        weight = weights.get(each, 1.0)
        # A share below one record is rounded up, so that nobody starves; but not beyond what is left of the limit.
        # Only the partition that lags most may go beyond it, by one record that weighs more than all of the limit.
        affordable = max(int(left / weight), 1 if number == 0 else 0)
        count = min(max(1, int(lags[each] * share)), lags[each], affordable)
        found[each] += count
        left = max(0.0, left - count * weight)
    return found


def lag(start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> int:
    """How many offsets lie between."""
    return sum(max(0, offset - start.get(each, offset)) for each, offset in end.items())
