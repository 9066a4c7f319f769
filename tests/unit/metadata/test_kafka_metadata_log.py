"""A metadata log that Apache Kafka wrote: it replays into the right image, and its records encode to the same bytes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from barnabas.metadata.apply import ImageBuilder
from barnabas.metadata.image import ResourceType
from barnabas.protocol.metadata_records import WRITE_VERSIONS, RecordType, decode_record, encode_record
from barnabas.protocol.record_batch import decode_records, read_header

LOG = Path(__file__).parents[2] / "data" / "kafka-4.3.1" / "__cluster_metadata-0" / "00000000000000000000.log"


def values() -> Iterator[bytes]:
    view = memoryview(LOG.read_bytes())
    position = 0
    while position < len(view):
        header = read_header(view, position)
        if not header.is_control:
            for record in decode_records(view, position):
                assert record.value is not None
                yield record.value
        position += header.size_bytes


def test_replays_into_the_image_that_kafka_described() -> None:
    builder = ImageBuilder()
    for value in values():
        builder.apply(decode_record(value))
    image, _ = builder.build(offset=0, leader_epoch=3, timestamp_ms=0)
    assert list(image.topics_by_name) == ["foo", "auto1"]  # bar was deleted
    foo = image.topics_by_name["foo"]
    # Created in epoch 0; offline and back at the clean restart, and again at the other one.
    assert [(state.leader, state.leader_epoch, state.isr) for state in foo.partitions.values()] == [(1, 4, (1,))] * 3
    assert foo.partitions[0].leader_recovery_state == 1
    assert len(image.topics_by_name["auto1"].partitions) == 6
    assert image.config(ResourceType.TOPIC, "foo") == {"retention.ms": "100000"}
    assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert image.next_producer_id == 1000
    assert image.features["metadata.version"] == 30
    assert image.brokers[1].active
    assert image.brokers[1].endpoints[0].port == 19492
    assert foo.partitions[0].directories == image.brokers[1].directories


def test_records_encode_to_kafkas_bytes() -> None:
    def as_kafka_wrote(record: Any, version: int) -> bytes:
        """Kafka writes some changes of a registration in the oldest version that holds them; the frame says which."""
        if record.API_KEY != RecordType.BROKER_REGISTRATION_CHANGE:
            return encode_record(record)
        out = bytearray((1, record.API_KEY, version))
        record.encode(out, version)
        return bytes(out)

    seen = set()
    for value in values():
        record = decode_record(value)
        seen.add(RecordType(record.API_KEY))
        assert as_kafka_wrote(record, value[2]) == value
        if record.API_KEY != RecordType.BROKER_REGISTRATION_CHANGE:
            assert value[2] == WRITE_VERSIONS.get(record.API_KEY, 0)
    assert len(seen) >= 13
