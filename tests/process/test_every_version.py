"""Every API at every version that the broker says it serves: it answers, and the answer decodes to the last byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from wire import Wire, batch, framed, header, produce, produce_request

from barnabas.protocol.apis import ApiKey, request_class
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest
from barnabas.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from barnabas.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
PRODUCE_VERSION_MIN = 3  # older ones are listed for clients that look for them, and refused (KIP-896)


class Sample:
    """What a request is about: a topic with one batch in partition 0."""

    def __init__(self, name: str, topic_id: bytes, number: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.number = number  # of this request, for names of topics to create


def produce_sample(sample: Sample, version: int) -> Any:
    request = produce_request(sample.name, {0: batch(b"x")})
    if version >= 13:
        request.topic_data[0].name, request.topic_data[0].topic_id = "", sample.topic_id
    return request


def fetch_sample(sample: Sample, version: int) -> Any:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20, current_leader_epoch=-1)
    topic = FetchTopic(partitions=[partition])
    if version >= 13:
        topic.topic_id = sample.topic_id
    else:
        topic.topic = sample.name
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=[topic])


def list_offsets_sample(sample: Sample, version: int) -> Any:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=each) for each in (-1, -2, 0)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=sample.name, partitions=partitions)])


def metadata_sample(sample: Sample, version: int) -> Any:
    topic = MetadataRequestTopic(name=sample.name)
    if version >= 12:
        topic = MetadataRequestTopic(name=None, topic_id=sample.topic_id)
    return MetadataRequest(topics=[topic])


def create_topics_sample(sample: Sample, version: int) -> Any:
    created = CreatableTopic(name=f"{sample.name}-v{version}-{sample.number}", num_partitions=2, replication_factor=1)
    return CreateTopicsRequest(topics=[created], timeout_ms=60_000)


def delete_topics_sample(sample: Sample, version: int) -> Any:
    if version >= 6:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name="no-such-topic")], timeout_ms=60_000)
    return DeleteTopicsRequest(topic_names=["no-such-topic"], timeout_ms=60_000)


def delete_records_sample(sample: Sample, version: int) -> Any:
    partition = DeleteRecordsPartition(partition_index=0, offset=0)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=sample.name, partitions=[partition])], timeout_ms=60_000
    )


def describe_configs_sample(sample: Sample, version: int) -> Any:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=sample.name, configuration_keys=None),
        DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configuration_keys=None),
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    if version >= 3:
        request.include_documentation = True
    return request


def epoch_sample(sample: Sample, version: int) -> Any:
    partition = OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=-1)
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=sample.name, partitions=[partition])]
    )


SAMPLES: dict[int, Callable[[Sample, int], Any]] = {
    ApiKey.PRODUCE: produce_sample,
    ApiKey.FETCH: fetch_sample,
    ApiKey.LIST_OFFSETS: list_offsets_sample,
    ApiKey.METADATA: metadata_sample,
    ApiKey.CREATE_TOPICS: create_topics_sample,
    ApiKey.DELETE_TOPICS: delete_topics_sample,
    ApiKey.DELETE_RECORDS: delete_records_sample,
    ApiKey.DESCRIBE_CONFIGS: describe_configs_sample,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: epoch_sample,
    ApiKey.INIT_PRODUCER_ID: lambda sample, version: InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=-1
    ),
    ApiKey.API_VERSIONS: lambda sample, version: ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    ),
    ApiKey.CREATE_PARTITIONS: lambda sample, version: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=sample.name, count=1, assignments=None)], timeout_ms=60_000
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda sample, version: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=sample.name)], response_partition_limit=10
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda sample, version: DescribeProducersRequest(
        topics=[ProducersTopic(name=sample.name, partition_indexes=[0])]
    ),
    ApiKey.DESCRIBE_QUORUM: lambda sample, version: DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])]
    ),
}


def served_versions(wire: Wire) -> dict[int, range]:
    answer = wire.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}


def test_every_api_at_every_version(served: str, new_topic: Callable[..., str]):
    name = new_topic()
    with Wire(served) as wire:
        produce(wire, name, {0: batch(b"first")})
        (topic,) = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
        problems = []
        for api_key, versions in served_versions(wire).items():
            if api_key not in set(ApiKey):
                continue
            for number, version in enumerate(versions):
                if api_key == ApiKey.PRODUCE and version < PRODUCE_VERSION_MIN:
                    continue
                sample = Sample(name, topic.topic_id, number)
                request = SAMPLES.get(api_key, lambda *_, key=api_key: request_class(key)())(sample, version)
                try:
                    with Wire(served) as fresh:
                        fresh.call(request, version)
                except Exception as problem:
                    problems.append(f"{ApiKey(api_key).name} version {version}: {problem!r}")
    assert not problems, "\n".join(problems)


def test_versions_that_are_not_served_are_refused(served: str):
    """One below and one above what ApiVersions says; ApiVersions itself answers by other rules."""
    with Wire(served) as wire:
        versions = served_versions(wire)
    for api_key, served_range in versions.items():
        if api_key == ApiKey.API_VERSIONS:
            continue
        for version in (served_range.start - 1, served_range.stop):
            with Wire(served) as wire:
                wire.send_bytes(framed(header(api_key, version) + bytes(40)))
                assert wire.is_closed_by_peer(), (api_key, version)


@pytest.mark.parametrize(
    "api_key",
    [
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.API_VERSIONS),
        *(ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_RECORDS),
        *(ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS),
        *(ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_QUORUM),
        *(ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.LIST_CONFIG_RESOURCES),
    ],
)
def test_apis_that_must_be_there(wire: Wire, api_key: ApiKey):
    assert api_key in served_versions(wire)
