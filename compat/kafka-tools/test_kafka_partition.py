"""A partition that Apache Kafka wrote, opened by the log of Barnabas: the same records, the same answers by time."""

from __future__ import annotations

import random
from pathlib import Path

import apache_kafka
import pytest
from apache_kafka import ApacheKafka
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from log_fixtures import NOW_MS, append, read_all, topic_config

from barnabas.log.log import Log
from barnabas.runtime.system.disk import SystemDisk

WHY_NOT = apache_kafka.why_unavailable()
pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(300),
]

RECORDS = 6000
MOMENTS = 300
Answers = dict[int, int]  # moment to offset; -1 where there is none


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes], Answers, int]:
    """Kafka's directory after a clean stop, the values in it, its answers by time, its offset of the latest record."""
    apache_kafka.fetch_jars()
    chance = random.Random(7)
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), {"log.segment.bytes": 1 << 20, "num.partitions": 1}) as kafka:
        values = [b"%d " % n + bytes(chance.randint(0, 1500)) for n in range(RECORDS)]
        producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 2, "enable.idempotence": True})
        for number, value in enumerate(values):
            producer.produce("topic", value, timestamp=NOW_MS + 10 * number + chance.randint(-3000, 3000))
            producer.poll(0)
            if number % 50 == 0:
                producer.flush()
        producer.flush()
        moments = [NOW_MS + chance.randint(-5000, 10 * RECORDS + 5000) for _ in range(MOMENTS)]
        consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "times"})
        answers = {
            moment: max(-1, consumer.offsets_for_times([TopicPartition("topic", 0, moment)], timeout=30)[0].offset)
            for moment in moments
        }
        consumer.close()
        asked = {TopicPartition("topic", 0): OffsetSpec.max_timestamp()}
        client = AdminClient({"bootstrap.servers": kafka.address})
        latest = next(iter(client.list_offsets(asked).values())).result(timeout=30)
    return kafka.node_directory / "topic-0", values, answers, latest.offset


@pytest.mark.parametrize("clean", [True, False])
def test_records_and_times(partition: tuple[Path, list[bytes], Answers, int], clean: bool, tmp_path: Path) -> None:
    source, values, answers, latest_offset = partition
    directory = tmp_path / "topic-0"
    directory.mkdir()
    for file in source.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    log = Log.open(SystemDisk(), str(directory), topic_config(), NOW_MS, clean_shutdown=clean)
    log.high_watermark = log.log_end_offset
    assert len(log.segments) > 3
    assert [record.value for record in read_all(log)] == values
    for moment, offset in answers.items():
        found = log.offset_for_timestamp(moment)
        # A client gets the end of the log where Kafka found nothing.
        assert (found.offset if found is not None else RECORDS) == (offset if offset >= 0 else RECORDS)
    latest = log.offset_of_max_timestamp()
    assert latest is not None
    assert latest.offset == latest_offset
    append(log, 5, leader_epoch=100)
    log.close()
    again = Log.open(SystemDisk(), str(directory), topic_config(), NOW_MS, clean_shutdown=True)
    assert len(read_all(again)) == RECORDS + 5
