"""What clients cannot tell apart, told by one that does only what it is told: was it done, or only not answered?"""

from __future__ import annotations

import pytest
from wire import Closed, Wire, batch, fetch, fetch_request, produce, produce_request

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchPartition, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, TopicProduceData
from barnabas.testing import Kafka

TOPIC = "letters"
PRODUCE_VERSION = 12
PRODUCE_BY_ID_VERSION = 13
METADATA_VERSION = 12
FETCH_VERSION = 12


def end_offset(kafka: Kafka, topic: str = TOPIC) -> int:
    with Wire(kafka.bootstrap_servers) as wire:
        watermark: int = fetch(wire, topic, {0: 0})[0].high_watermark
        return watermark


@pytest.fixture
def wire(kafka: Kafka):
    kafka.create_topic(TOPIC)
    with Wire(kafka.bootstrap_servers) as opened:
        yield opened


@pytest.mark.parametrize("acks", [-1, 1, 0])
@pytest.mark.parametrize("after", [False, True])
def test_a_connection_drops_before_or_after_the_work(kafka: Kafka, wire: Wire, after: bool, acks: int):
    kafka.drop_connection("Produce", after=after)
    wire.send(produce_request(TOPIC, {0: batch(b"x")}, acks), PRODUCE_VERSION)
    with pytest.raises(Closed):
        wire.receive_frame()
    assert end_offset(kafka) == after


@pytest.mark.parametrize("after", [False, True])
def test_a_delay_comes_before_or_after_the_work(kafka: Kafka, wire: Wire, after: bool):
    """The buffer in which the request came is used again meanwhile, for another one."""
    with kafka.delay("Produce", 100, after=after) as fault:
        wire.send(produce_request(TOPIC, {0: batch(b"x" * 100)}), PRODUCE_VERSION)
        fault.wait()
        assert end_offset(kafka) == after
    _correlation_id, answer = wire.receive(0, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert end_offset(kafka) == 1


def test_an_error_without_an_answer_ends_the_connection(kafka: Kafka, wire: Wire):
    kafka.fail_next("Produce", "INVALID_RECORD")
    wire.send(produce_request(TOPIC, {0: batch(b"x")}, acks=0), PRODUCE_VERSION)
    with pytest.raises(Closed):
        wire.receive_frame()
    assert end_offset(kafka) == 0


def test_the_rest_of_a_request_is_carried_out(kafka: Kafka, wire: Wire):
    kafka.create_topic("other")
    kafka.fail_next("Produce", "INVALID_RECORD", topic=TOPIC)
    request = produce_request(TOPIC, {0: batch(b"x")})
    data = PartitionProduceData(index=0, records=bytes(batch(b"y")))
    request.topic_data.append(TopicProduceData(name="other", partition_data=[data]))
    answer = wire.call(request, PRODUCE_VERSION)
    assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
        "other": ErrorCode.NONE,
        TOPIC: ErrorCode.INVALID_RECORD,
    }
    assert (end_offset(kafka), end_offset(kafka, "other")) == (0, 1)


def test_a_topic_may_be_named_by_its_id(kafka: Kafka, wire: Wire):
    """As newer clients do."""
    other = kafka.create_topic("other")
    ids = {each.name: each.topic_id for each in wire.call(MetadataRequest(topics=None), METADATA_VERSION).topics}
    fault = kafka.fail_next("Produce", "INVALID_RECORD", topic=TOPIC, times=2)
    for topic, code in ((TOPIC, ErrorCode.INVALID_RECORD), (other, ErrorCode.NONE)):
        request = produce_request("", {0: batch(b"x")})
        request.topic_data[0].topic_id = ids[topic]
        [answer] = wire.call(request, PRODUCE_BY_ID_VERSION).responses
        assert (answer.topic_id, answer.partition_responses[0].error_code) == (ids[topic], code)
    assert fault.hits == 1


def test_every_partition_of_a_fetch_session_is_told(kafka: Kafka, wire: Wire):
    kafka.create_topic("other")
    for topic in (TOPIC, "other"):
        produce(wire, topic, {0: batch(b"x")})
    request = fetch_request(TOPIC, {0: 1})
    request.session_epoch = 0
    other = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20, current_leader_epoch=-1)
    request.topics.append(FetchTopic(topic="other", partitions=[other]))
    begun = wire.call(request, FETCH_VERSION)
    request.topics, request.session_id = [], begun.session_id

    def go_on() -> dict[str, int]:
        request.session_epoch += 1
        answer = wire.call(request, FETCH_VERSION)
        assert answer.error_code == ErrorCode.NONE
        return {topic.topic: topic.partitions[0].error_code for topic in answer.responses}

    assert go_on() == {}
    kafka.fail_next("Fetch", "OFFSET_OUT_OF_RANGE", topic="other")
    assert go_on() == {"other": ErrorCode.OFFSET_OUT_OF_RANGE}
    assert go_on() == {"other": ErrorCode.NONE}, "that it is over is told too"
    assert go_on() == {}


def test_brokers_are_spared():
    """A cluster replicates while clients are not served."""
    with Kafka(2) as cluster:
        cluster.create_topic(TOPIC, replication_factor=2)
        cluster.delay("Fetch", 60_000)
        fault = cluster.fail_next("Fetch", "KAFKA_STORAGE_ERROR", times=1000)
        leader = cluster.leader(TOPIC)
        host, port = cluster.addresses[leader - 1]
        with Wire(f"{host}:{port}") as wire:
            assert produce(wire, TOPIC, {0: batch(b"x")})[0].error_code == ErrorCode.NONE
        assert fault.hits == 0
