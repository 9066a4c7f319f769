"""AddRaftVoter, versions 0 to 1: a node that has the metadata log becomes a voter (KIP-853).

The rules are in `consensus.membership`. Before version 1 the answer comes when the change is committed; since then
whoever asks may be content with less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.consensus.voters import ReplicaKey, VoterEndpoint
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    if request.cluster_id is not None and request.cluster_id != broker.cluster_id:
        return AddRaftVoterResponse(
            error_code=ErrorCode.INCONSISTENT_CLUSTER_ID,
            error_message=f"This is cluster {broker.cluster_id}, not {request.cluster_id}.",
        )
    refusal = await broker.controller.voter_changes.add(
        ReplicaKey(request.voter_id, request.voter_directory_id),
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners),
        ack_when_committed=request.ack_when_committed,
    )
    return AddRaftVoterResponse(error_code=refusal.error, error_message=refusal.message)
