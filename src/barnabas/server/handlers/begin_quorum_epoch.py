"""BeginQuorumEpoch, versions 0 to 1: the new leader of the metadata quorum tells the voters that it leads (KIP-595).
The rules are in `consensus.raft`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from barnabas.server.context import RequestContext
from barnabas.server.quorum import quorum_messages

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    refusal = quorum_messages.refusal(request, broker.cluster_id)
    if refusal != ErrorCode.NONE:
        return BeginQuorumEpochResponse(error_code=refusal)
    quorum = broker.controller.quorum
    told = quorum_messages.decode_begin(request, broker.node_id)
    quorum.addresses.learn(quorum_messages.leader_endpoints_in(request, told.leader_id, quorum.own.listener))
    answer = quorum.receive_begin_epoch(told)
    partition = ResponsePartitionData(
        partition_index=0, error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    return BeginQuorumEpochResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
