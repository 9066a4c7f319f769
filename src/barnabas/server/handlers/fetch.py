"""Fetch, versions 4 to 18.

Records go out as ranges of log files: the connection sends them with sendfile. A fetch that finds less than
`min_bytes` waits on its partitions until they have grown enough or `max_wait_ms` has passed; no more is waited for than
the answer may hold. Sessions as KIP-227.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.special_numbers import READ_COMMITTED
from barnabas.replication.fetch_session import FetchContext, FetchPartition
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.server.quorum import quorum_fetch
from barnabas.server.replicas import leader_hints, read_replica, replica_fetch
from barnabas.server.replicas.fetch_answers import diverging_epoch, fetch_failed
from barnabas.server.replicas.fetch_wait import FetchWait
from barnabas.server.replicas.leader_hints import LeaderHints
from barnabas.server.replicas.partition import Partition
from barnabas.types import NO_LEADER_EPOCH, Offset

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

Answers = list[tuple[FetchPartition, PartitionData]]

FOLLOWERS_SERVE_SINCE_VERSION = 11  # a consumer that can say where it stands may read from a follower (KIP-392)
HINTED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def handle(broker: Broker, context: RequestContext, request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    if context.listener is ListenerKind.CONTROLLERS:
        return quorum_fetch.handle(broker, request)
    if (replica := replica_id(request)) >= 0:
        return replica_fetch.handle(broker, context.api_version, request, replica)
    fetch = broker.fetch_sessions.begin(request, context.api_version, broker.runtime.clock.monotonic_ms())
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    answers, size_bytes, urgent = read_all(broker, context, request, fetch)
    size_bytes_min = min(request.min_bytes, size_bytes_max(broker, request))
    if urgent or size_bytes >= size_bytes_min or request.max_wait_ms <= 0 or not answers:
        return respond(broker, context, fetch, answers)
    return FetchWait(
        partitions=[found for found in (find(broker, wanted) for wanted in fetch.partitions) if found is not None],
        bytes_missing=size_bytes_min - size_bytes,
        wait_ms_max=request.max_wait_ms,
        answer=lambda: respond(broker, context, fetch, read_all(broker, context, request, fetch)[0]),
        clock=broker.runtime.clock,
        is_worth_it=has_stable(broker, fetch) if request.isolation_level == READ_COMMITTED else None,
    ).future


def has_stable(broker: Broker, fetch: FetchContext) -> Callable[[], bool]:
    """Records of an open transaction are no answer to who reads committed ones only."""

    def any_stable() -> bool:
        found = ((find(broker, wanted), wanted.fetch_offset) for wanted in fetch.partitions)
        return any(partition is None or partition.log.last_stable_offset > offset for partition, offset in found)

    return any_stable


def read_all(
    broker: Broker, context: RequestContext, request: FetchRequest, fetch: FetchContext
) -> tuple[Answers, int, bool]:
    """The answers, the bytes of records in them, and whether one of them must not wait."""
    answers: Answers = []
    size_bytes = 0
    urgent = False
    room_for_all = size_bytes_max(broker, request)
    by_rack = bool(request.rack_id) and broker.config.replica_selector_class is not None
    leader_only = context.api_version < FOLLOWERS_SERVE_SINCE_VERSION
    for wanted in fetch.partitions:
        partition = find(broker, wanted)
        if partition is None:
            data = fetch_failed(wanted.key[1], _missing(broker, wanted))
        else:
            wanted.was_found = True
            room = min(wanted.partition_max_bytes, room_for_all - size_bytes)
            if (leader_only or partition.is_leader) and partition.leader_error(NO_LEADER_EPOCH) != ErrorCode.NONE:
                data = partition.fetch_failed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                data = read(partition, wanted, request, room, at_least_one=size_bytes == 0)
                if by_rack and data.error_code == ErrorCode.NONE and data.diverging_epoch is None:
                    send_elsewhere(broker, partition, request.rack_id, wanted.fetch_offset, data)
        records: Any = data.records
        size_bytes += len(records) if isinstance(records, bytes) else records.size_bytes
        urgent = urgent or is_urgent(data)
        answers.append((wanted, data))
    return answers, size_bytes, urgent


def size_bytes_max(broker: Broker, request: FetchRequest) -> int:
    return min(request.max_bytes, broker.config.fetch_max_bytes)


def _missing(broker: Broker, wanted: FetchPartition) -> ErrorCode:
    """An id that meant a topic earlier in this session, or when this fetch began to wait, means one that is gone."""
    error = leader_hints.missing(broker.controller.image, *wanted.key)
    is_gone = error == ErrorCode.UNKNOWN_TOPIC_ID and wanted.was_found
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else error


def is_urgent(data: PartitionData) -> bool:
    return data.error_code != ErrorCode.NONE or data.diverging_epoch is not None or data.preferred_read_replica >= 0


def send_elsewhere(broker: Broker, partition: Partition, rack: str, fetch_offset: Offset, data: PartitionData) -> None:
    """A consumer that another replica is nearer to reads there, and here no more."""
    preferred = read_replica.preferred(partition, broker.controller.image, rack, fetch_offset)
    if preferred != read_replica.NOWHERE_ELSE:
        data.preferred_read_replica = preferred
        data.records = b""


def find(broker: Broker, wanted: FetchPartition) -> Partition | None:
    topic, index = wanted.key
    if isinstance(topic, str):
        return broker.partitions.topic(topic).get(index)
    return broker.partitions.topic_by_id(topic).get(index)


def read(
    partition: Partition, wanted: FetchPartition, request: FetchRequest, room: int, *, at_least_one: bool
) -> PartitionData:
    error = partition.epoch_error(wanted.current_leader_epoch)
    if error != ErrorCode.NONE:
        return partition.fetch_failed(error)
    if wanted.partition_max_bytes < 0 or request.max_bytes < 0:
        return partition.fetch_failed(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka, which cannot read less than nothing
    diverging = diverging_epoch(partition.log, wanted.last_fetched_epoch, wanted.fetch_offset)
    if diverging is not None and diverging.epoch == NO_LEADER_EPOCH:
        return partition.fetch_failed(ErrorCode.OFFSET_OUT_OF_RANGE)  # of an epoch that this log has not heard of
    data = partition.fetch(
        # Where the logs part the offset means nothing here: the answer has no records, and says where they part.
        fetch_offset=wanted.fetch_offset if diverging is None else partition.log.log_end_offset,
        size_bytes_max=room,
        at_least_one=at_least_one,
        isolation_level=request.isolation_level,
    )
    if diverging is not None:
        data.diverging_epoch = diverging
    return data


def replica_id(request: FetchRequest) -> int:
    """From version 15 on it stands in `replica_state`."""
    return request.replica_id if request.replica_state is None else request.replica_state.replica_id


def respond(broker: Broker, context: RequestContext, fetch: FetchContext, answers: Answers) -> FetchResponse:
    topics: dict[object, FetchableTopicResponse] = {}
    hints: LeaderHints | None = None
    for wanted, data in fetch.select(answers):
        topic = wanted.key[0]
        if data.error_code in HINTED and context.api_version >= leader_hints.FETCH_HINTS_SINCE_VERSION:
            hints = hints or LeaderHints(broker, context)
            hints.give(data, *wanted.key, LeaderIdAndEpoch)
        of_topic = topics.get(topic)
        if of_topic is None:
            of_topic = topics[topic] = FetchableTopicResponse(partitions=[])
            if isinstance(topic, str):
                of_topic.topic = topic
            else:
                of_topic.topic_id = topic
        of_topic.partitions.append(data)
    response = FetchResponse(session_id=fetch.session_id, responses=list(topics.values()))
    if hints is not None:
        response.node_endpoints = hints.endpoints(NodeEndpoint)
    return response
