"""What a controller decides, asked through its handlers on one node: as Apache Kafka 4.3.1 answers there."""

import pytest
from handlers import PartsBroker, call, run

from barnabas.errors import ErrorCode
from barnabas.protocol.apis import ApiKey, api
from barnabas.protocol.message import DecodeError
from barnabas.protocol.messages import alter_client_quotas as quotas
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from barnabas.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.server.context import ListenerKind
from barnabas.server.dispatch import HANDLERS, Dispatcher
from barnabas.server.handlers import (
    allocate_producer_ids,
    alter_client_quotas,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    create_topics,
    describe_client_quotas,
    elect_leaders,
    list_partition_reassignments,
    unregister_broker,
    update_features,
)
from barnabas.types import NO_LEADER


async def started() -> PartsBroker:
    """With topic `t` of one partition."""
    broker = await PartsBroker().start()
    asked = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    await call(create_topics, broker, CreateTopicsRequest(topics=[asked]), 7)
    return broker


def versions(key: ApiKey) -> range:
    return range(api(key).min_version, api(key).max_stable_version + 1)


def test_leaders_are_where_they_belong_on_one_node() -> None:
    async def test() -> None:
        broker = await started()
        for version in versions(ApiKey.ELECT_LEADERS):
            request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0, 9])])
            response = await call(elect_leaders, broker, request, version)
            errors = [each.error_code for each in response.replica_election_results[0].partition_result]
            assert errors == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run(test)


def test_there_is_nowhere_to_move_to_on_one_node() -> None:
    async def test() -> None:
        broker = await started()
        for version in versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS):
            for replicas, error in (
                ([1], ErrorCode.NONE),
                ([1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
                (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
            ):
                asked = ReassignablePartition(partition_index=0, replicas=replicas)
                request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[asked])])
                response = await call(alter_partition_reassignments, broker, request, version)
                assert response.responses[0].partitions[0].error_code == error
        response = await call(list_partition_reassignments, broker, ListPartitionReassignmentsRequest(), 0)
        assert (response.error_code, response.topics) == (ErrorCode.NONE, [])

    run(test)


def test_quotas_are_kept() -> None:
    async def test() -> None:
        broker = await started()
        for version in versions(ApiKey.ALTER_CLIENT_QUOTAS):
            entry = quotas.RequestEntryData(
                entity=[quotas.RequestEntityData(entity_type="user", entity_name="u")],
                ops=[quotas.OpData(key="producer_byte_rate", value=float(1000 + version))],
            )
            response = await call(
                alter_client_quotas, broker, quotas.AlterClientQuotasRequest(entries=[entry]), version
            )
            assert [each.error_code for each in response.entries] == [ErrorCode.NONE]
            response = await call(describe_client_quotas, broker, DescribeClientQuotasRequest(), version)
            assert [each.value for each in response.entries[0].values] == [1000.0 + version]

    run(test)


def test_feature_levels_change() -> None:
    async def test() -> None:
        broker = await started()
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]
        )
        assert (await call(update_features, broker, request, 2)).error_code == ErrorCode.NONE
        assert "share.version" not in broker.controller.image.features
        request.feature_updates[0].upgrade_type = 1
        request.feature_updates[0].max_version_level = 9
        response = await call(update_features, broker, request, 1)
        assert (response.error_code, response.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])

    run(test)


def test_a_broker_is_unregistered_even_if_it_is_the_only_one() -> None:
    async def test() -> None:
        broker = await started()
        response = await call(unregister_broker, broker, UnregisterBrokerRequest(broker_id=77), 0)
        assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        response = await call(unregister_broker, broker, UnregisterBrokerRequest(broker_id=1), 0)
        assert response.error_code == ErrorCode.NONE
        assert not broker.controller.image.brokers
        assert broker.controller.image.topics_by_name["t"].partitions[0].leader == NO_LEADER

    run(test)


# What brokers ask of controllers


def test_another_broker_comes_and_lives() -> None:
    async def test() -> None:
        broker = await started()
        for version in versions(ApiKey.BROKER_REGISTRATION):
            request = BrokerRegistrationRequest(
                broker_id=2,
                cluster_id="cluster",
                incarnation_id=bytes([version]) * 16,
                features=[
                    Feature(name=name, min_supported_version=0, max_supported_version=level)
                    for name, level in broker.controller.image.features.items()
                ],
                log_dirs=[b"directory of two"],
            )
            response = await call(broker_registration, broker, request, version)
            if version < 2:  # before brokers said which directories they have
                assert response.error_code == ErrorCode.INVALID_REGISTRATION
                continue
            assert response.error_code == ErrorCode.NONE
        epoch = response.broker_epoch
        assert broker.controller.image.brokers[2].fenced
        for version in versions(ApiKey.BROKER_HEARTBEAT):
            heartbeat = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch, current_metadata_offset=epoch)
            response = await call(broker_heartbeat, broker, heartbeat, version)
            assert (response.error_code, response.is_caught_up, response.is_fenced) == (ErrorCode.NONE, True, False)
        assert not broker.controller.image.brokers[2].fenced
        request.incarnation_id = b"x" * 16
        response = await call(broker_registration, broker, request, 4)
        assert response.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        stale = BrokerHeartbeatRequest(broker_id=2, broker_epoch=epoch + 1, current_metadata_offset=epoch)
        assert (await call(broker_heartbeat, broker, stale, 2)).error_code == ErrorCode.STALE_BROKER_EPOCH

    run(test)


def test_a_leader_asks_for_what_is_so_already() -> None:
    async def test() -> None:
        broker = await started()
        topic = broker.controller.image.topics_by_name["t"]
        for version in versions(ApiKey.ALTER_PARTITION):
            asked = RequestPartitionData(partition_index=0)
            if version >= 3:
                asked.new_isr_with_epochs = [BrokerState(broker_id=1, broker_epoch=broker.lifecycle.epoch)]
            else:
                asked.new_isr = [1]
            request = AlterPartitionRequest(
                broker_id=1,
                broker_epoch=broker.lifecycle.epoch,
                topics=[RequestTopicData(topic_id=topic.id, partitions=[asked])],
            )
            [answer] = (await call(alter_partition, broker, request, version)).topics[0].partitions
            assert (answer.error_code, answer.leader_id, answer.isr) == (ErrorCode.NONE, 1, [1])

    run(test)


def test_blocks_of_producer_ids_and_directories() -> None:
    async def test() -> None:
        broker = await started()
        epoch = broker.lifecycle.epoch
        for first in (0, 1000):
            request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
            response = await call(allocate_producer_ids, broker, request, 0)
            assert (response.error_code, response.producer_id_start, response.producer_id_len) == (0, first, 1000)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1)
        assert (await call(allocate_producer_ids, broker, request, 0)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assigned = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch)
        assert (await call(assign_replicas_to_dirs, broker, assigned, 0)).error_code == ErrorCode.NONE

    run(test)


def test_clients_are_not_told_of_what_only_controllers_serve_nor_served() -> None:
    for_controllers = [key for key in HANDLERS if not api(key).on_broker]
    assert ApiKey.BROKER_HEARTBEAT in for_controllers
    assert not {each.api_key for each in api_versions.served(ListenerKind.BROKERS, unstable=False)} & set(
        for_controllers
    )
    dispatcher = Dispatcher(None, ListenerKind.BROKERS)  # type: ignore[arg-type]
    for key in for_controllers:
        with pytest.raises(DecodeError):
            dispatcher._route(key)
