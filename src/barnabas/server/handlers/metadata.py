"""Metadata, versions 0 to 13: the brokers that are alive, and topics with their partitions and leaders.

No topics named: all of them (in version 0 an empty list, later null; there an empty list means none). From version 12
on topics may be asked for by id; where a request has any id, topics named without one are passed over, as in Kafka.
The node's own address is that of the listener that the client dialled, as the settings name it.
While a broker may have died just now, the answer waits until its partitions have other leaders, at most a second.
Differs from Kafka: a topic that is created by being asked for is in the same answer, not an error to be retried.
A topic with neither name nor id is INVALID_REQUEST, where Kafka fails with UNKNOWN_SERVER_ERROR. Internal topics are
not created by being asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.metadata.image import MetadataImage, PartitionImage, TopicImage
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.server import auto_create, cluster_view
from barnabas.server.context import RequestContext
from barnabas.server.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from barnabas.types import NO_LEADER, ZERO_UUID

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

NULL_MEANS_ALL_SINCE_VERSION = 1
LISTENER_ERROR_SINCE_VERSION = 6
TOPIC_ID_SINCE_VERSION = 12


def handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if cluster_view.is_unsettled(broker):
        return broker.supervisor.awaited("Metadata", _respond_once_settled(broker, context, request))
    return _handle(broker, context, request)


async def _respond_once_settled(broker: Broker, context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    await cluster_view.settled(broker)
    response = _handle(broker, context, request)
    return response if isinstance(response, MetadataResponse) else await response


def _handle(
    broker: Broker, context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse]:
    version = context.api_version
    image = broker.controller.image
    if request.topics is None or (not request.topics and version < NULL_MEANS_ALL_SINCE_VERSION):
        return _respond(broker, context, request, [_known(topic, image, version) for topic in _all(image)])
    refused = _refused(request.topics, version)
    if refused:
        return MetadataResponse(topics=refused)
    if any(topic.topic_id != ZERO_UUID for topic in request.topics):
        return _respond(broker, context, request, _by_id(request.topics, image, version))
    names = list(dict.fromkeys(topic.name or "" for topic in request.topics))
    if broker.config.auto_create_topics_enable and request.allow_auto_topic_creation:
        missing = [name for name in names if name not in image.topics_by_name and _may_be_created(name)]
        if missing:
            return _create_and_respond(broker, context, request, names, missing)
    return _respond(broker, context, request, _by_name(names, image, version))


def _may_be_created(name: str) -> bool:
    """Internal topics are made by those who write them, with partitions and configs of their own."""
    return topic_names.is_valid(name) and not topic_names.is_internal(name)


async def _create_and_respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, names: list[str], missing: list[str]
) -> MetadataResponse:
    await auto_create.create(broker, missing)
    image = broker.controller.image
    return _respond(broker, context, request, _by_name(names, image, context.api_version))


def _all(image: MetadataImage) -> list[TopicImage]:
    return list(image.topics_by_name.values())


def _refused(topics: list[MetadataRequestTopic], version: int) -> list[MetadataResponseTopic]:
    """All topics of a request that cannot be meant, else none."""
    by_id = version >= TOPIC_ID_SINCE_VERSION
    for topic in topics:
        if (topic.name is None and topic.topic_id == ZERO_UUID) or (
            not by_id and (topic.name is None or topic.topic_id != ZERO_UUID)
        ):
            return [
                MetadataResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id
                )
                for each in topics
            ]
    return []


def _by_id(topics: list[MetadataRequestTopic], image: MetadataImage, version: int) -> list[MetadataResponseTopic]:
    ids = list(dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID))
    answers = [
        MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
        for topic_id in ids
        if topic_id not in image.topics_by_id
    ]
    known = (image.topics_by_id[topic_id] for topic_id in ids if topic_id in image.topics_by_id)
    return answers + [_known(topic, image, version) for topic in known]


def _by_name(names: list[str], image: MetadataImage, version: int) -> list[MetadataResponseTopic]:
    """Those that exist first, as in Kafka."""
    found = [image.topics_by_name[name] for name in names if name in image.topics_by_name]
    answers = [_known(topic, image, version) for topic in found]
    for name in names:
        if name not in image.topics_by_name:
            valid = topic_names.is_valid(name)
            answers.append(
                MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
                    name=name,
                    is_internal=topic_names.is_internal(name),
                )
            )
    return answers


def _known(topic: TopicImage, image: MetadataImage, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic_names.is_internal(topic.name),
        partitions=[_partition(index, state, image, version) for index, state in topic.partitions.items()],
    )


def _partition(index: int, state: PartitionImage, image: MetadataImage, version: int) -> MetadataResponsePartition:
    offline = cluster_view.offline_replicas(image, state)
    replicas, isr = list(state.replicas), list(state.isr)
    error = ErrorCode.NONE
    leader = state.leader
    if version == 0 and offline:
        # Version 0 has no list of offline replicas: they are left out instead, and their absence is an error.
        replicas = [replica for replica in replicas if cluster_view.is_alive(image, replica)]
        isr = [replica for replica in isr if cluster_view.is_alive(image, replica)]
        if len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
            error = ErrorCode.REPLICA_NOT_AVAILABLE
    if not cluster_view.is_alive(image, leader):
        listener_error = leader in image.brokers and version >= LISTENER_ERROR_SINCE_VERSION
        error = ErrorCode.LISTENER_NOT_FOUND if listener_error else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )


def _respond(
    broker: Broker, context: RequestContext, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_ID:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster_view.nodes(broker, context, broker.controller.image)
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,  # any broker takes what only the controller may do, and passes it on
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
