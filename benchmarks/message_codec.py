"""Microseconds to decode and encode the messages of the hot path: `python benchmarks/message_codec.py`.

Each figure is the best of several rounds: the least disturbed one says what the code costs.
"""

from timeit import Timer

from barnabas.protocol.message import Message
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.protocol.primitives import Output

ROUNDS = 7
TOPIC_ID = bytes(range(16))


class FileRange:
    """Stands for records that stay in their segment."""

    size_bytes = 1 << 20


def produce_request(partitions: int) -> ProduceRequest:
    data = [PartitionProduceData(index=index, records=b"\x00" * 1024) for index in range(partitions)]
    topic = TopicProduceData(name="events", topic_id=TOPIC_ID, partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=30000, topic_data=[topic])


def produce_response(partitions: int) -> ProduceResponse:
    answers = [
        PartitionProduceResponse(index=index, base_offset=123456789, log_start_offset=0) for index in range(partitions)
    ]
    topic = TopicProduceResponse(name="events", topic_id=TOPIC_ID, partition_responses=answers)
    return ProduceResponse(responses=[topic])


def fetch_request(partitions: int) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=123456789, partition_max_bytes=1 << 20)
        for index in range(partitions)
    ]
    topic = FetchTopic(topic="events", topic_id=TOPIC_ID, partitions=wanted)
    return FetchRequest(max_wait_ms=500, min_bytes=1, session_id=77, session_epoch=5, topics=[topic])


def fetch_response(partitions: int) -> FetchResponse:
    found = [
        PartitionData(
            partition_index=index,
            high_watermark=123456789,
            last_stable_offset=123456789,
            log_start_offset=0,
            records=FileRange(),
        )
        for index in range(partitions)
    ]
    topic = FetchableTopicResponse(topic="events", topic_id=TOPIC_ID, partitions=found)
    return FetchResponse(session_id=77, responses=[topic])


def metadata_response(partitions: int) -> MetadataResponse:
    replicas = [1, 2, 3]
    described = [
        MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=4, replica_nodes=replicas, isr_nodes=replicas
        )
        for index in range(partitions)
    ]
    brokers = [MetadataResponseBroker(node_id=node, host="broker.example", port=9092) for node in replicas]
    topic = MetadataResponseTopic(name="events", topic_id=TOPIC_ID, partitions=described)
    return MetadataResponse(brokers=brokers, cluster_id="4L6g3nShT-eMCtK--X86sw", controller_id=1, topics=[topic])


def best_us(function: Timer) -> float:
    number, seconds = function.autorange()
    number = max(1, int(number * 0.05 / seconds))
    return min(function.repeat(ROUNDS, number)) / number * 1e6


def measure(message: Message, version: int, partitions: int) -> None:
    def encode() -> Output:
        out = Output()
        message.encode(out, version)
        return out

    encode_us = best_us(Timer(encode))
    data = encode()
    for position, source in reversed(data.splices):
        data[position:position] = bytes(source.size_bytes)
    view, decode = memoryview(bytes(data)), type(message).decode
    decode_us = best_us(Timer(lambda: decode(view, 0, version)))
    print(f"{type(message).__name__:17} {version:7} {partitions:10} {decode_us:10.2f} {encode_us:10.2f}")


def main() -> None:
    print(f"{'message':17} {'version':>7} {'partitions':>10} {'decode µs':>10} {'encode µs':>10}")
    for partitions in (1, 100):
        for version in (8, 12, 13):
            measure(produce_request(partitions), version, partitions)
            measure(produce_response(partitions), version, partitions)
        for version in (11, 12, 17):
            measure(fetch_request(partitions), version, partitions)
            measure(fetch_response(partitions), version, partitions)
        measure(metadata_response(partitions), 13, partitions)
    measure(MetadataRequest(topics=[MetadataRequestTopic(name="events")]), 13, 0)


if __name__ == "__main__":
    main()
