"""Vote, versions 0 to 2: a candidate for the lead of the metadata quorum asks for a vote, or with a pre-vote whether it
would get one (KIP-595, KIP-996). The rules are in `consensus.raft`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.metadata.topic_names import METADATA_TOPIC
from barnabas.protocol.messages.vote import (
    NodeEndpoint,
    ResponsePartitionData,
    ResponseTopicData,
    VoteRequest,
    VoteResponse,
)
from barnabas.server.context import RequestContext
from barnabas.server.quorum import quorum_messages

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: VoteRequest) -> VoteResponse:
    refusal = quorum_messages.refusal(request, broker.cluster_id)
    if refusal != ErrorCode.NONE:
        return VoteResponse(error_code=refusal)
    answer = broker.controller.quorum.receive_vote(quorum_messages.decode_vote(request, broker.node_id))
    partition = ResponsePartitionData(
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return VoteResponse(
        topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[
            NodeEndpoint(node_id=node_id, host=host, port=port)
            for node_id, (host, port) in broker.controller.quorum.leader_endpoint()
        ],
    )
