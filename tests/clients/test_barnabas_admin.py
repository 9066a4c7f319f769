"""Admin against a real broker: each call's good path, its partial failures, and the same against Apache Kafka."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from client_libraries import confluent_kafka as ck

from barnabas.client.admin import Admin
from barnabas.client.admin.configs import AlterConfigOp, AlterOperation, ConfigResource, ResourceKind
from barnabas.client.admin.groups import GroupKind
from barnabas.client.admin.offsets import OffsetSpec
from barnabas.client.admin.placement import ElectionType
from barnabas.client.admin.topics import NewTopic
from barnabas.client.admin.transactions import AbortSpec
from barnabas.client.errors import (
    BrokersUnreachableError,
    ClientClosedError,
    InvalidTopicError,
    TopicExistsError,
    UnknownTopicError,
)
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.config.describe import ConfigSource
from barnabas.config.validation import ConfigError
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

_numbers = itertools.count(1)
WAIT_SECONDS_MAX = 120.0


def fresh(stem: str) -> str:
    return f"admin-{stem}-{os.getpid()}-{next(_numbers)}"


async def new_topic(admin: Admin, partitions: int = 1, **configs: str) -> str:
    name = fresh("topic")
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=settings)
    (await admin.create_topics([topic])).unwrap()
    return name


def produce(servers: str, topic: str, count: int, *, timestamp_ms: int = 0, **settings: object) -> None:
    producer = ck.Producer({"bootstrap.servers": servers, "linger.ms": 1, **settings})
    for number in range(count):
        producer.produce(topic, str(number), partition=0, timestamp=timestamp_ms + number if timestamp_ms else 0)
    assert producer.flush(WAIT_SECONDS_MAX) == 0


async def until(ask: Callable[[], Awaitable[Any]], what: str) -> Any:
    deadline = asyncio.get_running_loop().time() + WAIT_SECONDS_MAX
    while True:
        found = await ask()
        if found:
            return found
        assert asyncio.get_running_loop().time() < deadline, f"it never happened: {what}"
        await asyncio.sleep(0.02)


# Scenarios, each for a broker that may be any


async def topics(admin: Admin, _servers: str) -> None:
    one, two, bad = fresh("one"), fresh("two"), "not a name"
    made = await admin.create_topics(
        [
            NewTopic(name=one, partitions=3, replication_factor=1, configs={"retention.ms": "1000"}),
            NewTopic(name=two, assignments={0: [1], 1: [1]}),
            NewTopic(name=bad, partitions=1, replication_factor=1),
        ]
    )
    assert made.done[one].partitions == 3
    assert made.done[one].configs["retention.ms"] == "1000"
    assert made.done[two].partitions == 2
    assert isinstance(made.failed[bad], InvalidTopicError)
    again = await admin.create_topics([NewTopic(name=one, partitions=1, replication_factor=1)])
    assert isinstance(again.failed[one], TopicExistsError)
    unborn = fresh("dry")
    dry = await admin.create_topics([NewTopic(name=unborn, partitions=1)], validate_only=True)
    assert list(dry.done) == [unborn]

    async def listed() -> Any:  # brokers learn of a topic after it was made
        found = {each.name: each for each in await admin.list_topics()}
        return found if {one, two} <= set(found) else None

    there = await until(listed, "the new topics")
    assert unborn not in there
    assert there[one].topic_id == made.done[one].topic_id
    described = await admin.describe_topics([two, one, "nothing-of-the-kind"], partitions_per_page=2)
    assert [each.partition for each in described.done[one].partitions] == [0, 1, 2]
    assert described.done[one].partitions[0].replicas == described.done[one].partitions[0].isr == (1,)
    assert len(described.done[two].partitions) == 2
    assert isinstance(described.failed["nothing-of-the-kind"], UnknownTopicError)
    grown = await admin.create_partitions({one: 5, two: 1})
    assert list(grown.done) == [one]
    assert grown.failed[two].code == ErrorCode.INVALID_PARTITIONS

    async def has_grown() -> bool:
        return len((await admin.describe_topics([one])).done[one].partitions) == 5

    await until(has_grown, "the new partitions")
    gone = await admin.delete_topics([one, two, "nothing-of-the-kind"])
    assert set(gone.done) == {one, two}
    assert isinstance(gone.failed["nothing-of-the-kind"], UnknownTopicError)
    with pytest.raises(UnknownTopicError, match="nothing-of-the-kind"):
        gone.unwrap()


async def configs(admin: Admin, _servers: str) -> None:
    topic = ConfigResource(ResourceKind.TOPIC, await new_topic(admin, retention_ms="5000"))
    missing = ConfigResource(ResourceKind.TOPIC, "nothing-of-the-kind")
    broker = ConfigResource(ResourceKind.BROKER, "1")
    nobody = ConfigResource(ResourceKind.BROKER, "999")
    found = await admin.describe_configs([topic, missing, broker, nobody], include_synonyms=True)
    retention = found.done[topic]["retention.ms"]
    assert (retention.value, retention.source, retention.is_default) == (
        "5000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        False,
    )
    assert retention.synonyms[0] == ("retention.ms", "5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    policy = found.done[topic]["cleanup.policy"]
    assert (policy.is_default, [each.name for each in policy.synonyms]) == (True, ["log.cleanup.policy"])
    assert found.done[broker]["node.id"].value == "1"
    assert found.failed[missing].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found.failed[nobody].code == ErrorCode.BROKER_ID_NOT_REGISTERED
    changed = await admin.incremental_alter_configs(
        {
            topic: [
                AlterConfigOp("retention.ms", None, AlterOperation.DELETE),
                AlterConfigOp("cleanup.policy", "compact", AlterOperation.APPEND),
            ]
        }
    )
    assert not changed.failed

    async def applied() -> bool:
        after = (await admin.describe_configs([topic], names=["retention.ms", "cleanup.policy"])).done[topic]
        assert set(after) == {"retention.ms", "cleanup.policy"}
        return after["retention.ms"].is_default and after["cleanup.policy"].value == "delete,compact"

    await until(applied, "the new configs")
    refused = await admin.incremental_alter_configs({topic: [AlterConfigOp("retention.ms", "soon")]})
    assert refused.failed[topic].code == ErrorCode.INVALID_CONFIG
    assert topic in await admin.list_config_resources([ResourceKind.TOPIC])


async def quotas(admin: Admin, _servers: str) -> None:
    entity = (("client-id", fresh("client")),)
    done = await admin.alter_client_quotas({entity: {"producer_byte_rate": 1024.0}})
    assert not done.failed
    name = entity[0][1]

    async def there() -> bool:
        return await admin.describe_client_quotas({"client-id": name}) == {entity: {"producer_byte_rate": 1024.0}}

    await until(there, "the quota")
    (await admin.alter_client_quotas({entity: {"producer_byte_rate": None}})).unwrap()


async def offsets(admin: Admin, servers: str) -> None:
    topic = await new_topic(admin)
    partition, missing = TopicPartition(topic, 0), TopicPartition(topic, 7)
    produce(servers, topic, 10, timestamp_ms=1_700_000_000_000)

    async def offset(spec: int) -> int:
        return (await admin.list_offsets({partition: spec})).done[partition].offset

    assert await offset(OffsetSpec.EARLIEST) == 0
    assert await offset(OffsetSpec.LATEST) == 10
    assert await offset(OffsetSpec.MAX_TIMESTAMP) == 9
    assert await offset(1_700_000_000_004) == 4
    assert await offset(1_800_000_000_000) == -1
    partly = await admin.list_offsets({partition: OffsetSpec.LATEST, missing: OffsetSpec.LATEST})
    assert list(partly.done) == [partition]
    assert isinstance(partly.failed[missing], UnknownTopicError)
    deleted = await admin.delete_records({partition: 4, missing: 1})
    assert deleted.done == {partition: 4}
    assert await offset(OffsetSpec.EARLIEST) == 4
    beyond = await admin.delete_records({partition: 100})
    assert beyond.failed[partition].code == ErrorCode.OFFSET_OUT_OF_RANGE
    sizes = (await admin.describe_log_dirs(partitions={topic: [0]})).unwrap()
    (replica,) = [each for directories in sizes.values() for found in directories for each in found.replicas]
    assert replica.topic_partition == partition
    assert replica.size_bytes > 0


async def group_offsets(admin: Admin, _servers: str) -> None:
    topic = await new_topic(admin, partitions=2)
    group = fresh("group")
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    done = await admin.alter_consumer_group_offsets(
        group, {first: OffsetAndMetadata(5, "why"), second: OffsetAndMetadata(6)}
    )
    assert set(done.done) == {first, second}
    assert await admin.list_consumer_group_offsets(group) == {
        first: OffsetAndMetadata(5, "why"),
        second: OffsetAndMetadata(6),
    }
    assert await admin.list_consumer_group_offsets(group, [first, TopicPartition(topic, 9)]) == {
        first: OffsetAndMetadata(5, "why"),
        TopicPartition(topic, 9): None,
    }
    assert (await admin.delete_consumer_group_offsets(group, [second])).done == {second: None}
    assert list(await admin.list_consumer_group_offsets(group)) == [first]
    description = (await admin.describe_groups([group])).one(group)
    assert (description.kind, description.state, description.members) == (GroupKind.CLASSIC, "Empty", ())
    gone = await admin.delete_groups([group, "nothing-of-the-kind"])
    assert list(gone.done) == [group]
    assert gone.failed["nothing-of-the-kind"].code == ErrorCode.GROUP_ID_NOT_FOUND


async def groups(admin: Admin, servers: str) -> None:
    topic = await new_topic(admin, partitions=2)
    for kind, settings in (
        (GroupKind.CLASSIC, {"group.protocol": "classic"}),
        (GroupKind.CONSUMER, {"group.protocol": "consumer"}),
    ):
        group = fresh(kind.value)
        consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": group, "client.id": "me", **settings})
        consumer.subscribe([topic])
        try:
            await _one_group(admin, kind, group, topic, consumer)
        finally:
            consumer.close()
    missing = await admin.describe_groups(["nothing-of-the-kind"])
    assert missing.failed["nothing-of-the-kind"].code == ErrorCode.GROUP_ID_NOT_FOUND


async def _one_group(admin: Admin, kind: GroupKind, group: str, topic: str, consumer: Any) -> None:
    async def stable() -> Any:
        consumer.poll(0.05)
        found = (await admin.describe_groups([group])).done.get(group)
        return found if found and found.state == "Stable" and found.members[0].assignment else None

    described = await until(stable, f"{group} is stable")
    assert described.kind is kind
    (member,) = described.members
    assert member.client_id == "me"
    assert set(member.assignment) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    listings = [each for found in (await admin.list_groups(kinds=[kind])).unwrap().values() for each in found]
    assert [each.state for each in listings if each.group_id == group] == ["Stable"]
    assert {each.kind for each in listings} == {kind}
    busy = await admin.delete_groups([group])
    assert busy.failed[group].code == ErrorCode.NON_EMPTY_GROUP
    removed = await admin.remove_members_from_consumer_group(group)
    if kind is GroupKind.CLASSIC:
        assert removed.done == {member.member_id: None}


async def the_cluster(admin: Admin, _servers: str) -> None:
    cluster = await admin.describe_cluster()
    assert [each.node_id for each in cluster.brokers] == [1]
    assert cluster.controller_id == 1
    fenced = await admin.describe_cluster(include_fenced_brokers=True)
    assert [each.is_fenced for each in fenced.brokers] == [False]
    quorum = await admin.describe_metadata_quorum()
    assert quorum.leader_id == 1
    assert [each.replica_id for each in quorum.voters] == [1]
    assert quorum.high_watermark > 0
    features = await admin.describe_features()
    assert features["metadata.version"].finalized is not None
    with pytest.raises(Exception, match="nothing"):
        await admin.update_features({"nothing": 1})
    directories = (await admin.describe_log_dirs()).unwrap()
    assert list(directories) == [1]
    unknown = await admin.describe_log_dirs([999])
    assert unknown.failed[999].code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def placement(admin: Admin, _servers: str) -> None:
    partition = TopicPartition(await new_topic(admin), 0)
    assert partition not in await admin.list_partition_reassignments()
    moved = await admin.alter_partition_reassignments({partition: [1], TopicPartition(partition.topic, 5): [1]})
    assert moved.done == {partition: None}
    assert list(moved.failed) == [TopicPartition(partition.topic, 5)]
    cancelled = await admin.alter_partition_reassignments({partition: None})
    assert cancelled.failed[partition].code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    elected = await admin.elect_leaders(ElectionType.PREFERRED, [partition])
    assert elected.failed[partition].code == ErrorCode.ELECTION_NOT_NEEDED


async def transactions(admin: Admin, servers: str) -> None:
    topic = await new_topic(admin)
    partition, transactional_id = TopicPartition(topic, 0), fresh("transaction")
    producer = ck.Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(WAIT_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    assert producer.flush(WAIT_SECONDS_MAX) == 0
    described = (await admin.describe_transactions([transactional_id])).one(transactional_id)
    assert (described.state, described.partitions) == ("Ongoing", (partition,))
    listed = await admin.list_transactions(states=["Ongoing"], producer_ids=[described.producer_id])
    assert [each.transactional_id for found in listed.unwrap().values() for each in found] == [transactional_id]
    (state,) = (await admin.describe_producers([partition])).done[partition]
    assert (state.producer_id, state.transaction_start_offset) == (described.producer_id, 0)
    assert await admin.find_hanging_transactions([partition], max_transaction_timeout_ms=-1) == []
    await admin.abort_transaction(
        AbortSpec(partition, state.producer_id, state.producer_epoch, state.coordinator_epoch or 0)
    )
    (state,) = (await admin.describe_producers([partition])).done[partition]
    assert state.transaction_start_offset is None
    fenced = (await admin.fence_producers([transactional_id])).one(transactional_id)
    assert (fenced.producer_id, fenced.producer_epoch) > (described.producer_id, described.producer_epoch)
    missing = await admin.describe_transactions(["nothing-of-the-kind"])
    assert missing.failed["nothing-of-the-kind"].code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    del producer


SCENARIOS = [
    topics,
    configs,
    quotas,
    offsets,
    group_offsets,
    groups,
    the_cluster,
    placement,
    transactions,
]


async def run(scenario: Callable[[Admin, str], Awaitable[None]], servers: str) -> None:
    async with asyncio.timeout(2 * WAIT_SECONDS_MAX), Admin(bootstrap_servers=servers) as admin:
        await scenario(admin, servers)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_admin(scenario: Callable[[Admin, str], Awaitable[None]], served_by_either: str) -> None:
    asyncio.run(run(scenario, served_by_either))


# Bad input


def test_nobody_there() -> None:
    async def scenario() -> None:
        with pytest.raises(BrokersUnreachableError, match=r"127\.0\.0\.1:1 within 300 ms"):
            async with Admin(bootstrap_servers="127.0.0.1:1", request_timeout_ms=300):
                raise AssertionError("it must not come to this")

    asyncio.run(scenario())


def test_a_closed_admin_says_so(served: str) -> None:
    async def scenario() -> None:
        async with Admin(bootstrap_servers=served) as admin:
            pass
        with pytest.raises(ClientClosedError):
            await admin.list_topics()

    asyncio.run(scenario())


def test_unknown_settings_are_refused_with_the_closest_name() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Admin(bootstrap_server="localhost:9092")
