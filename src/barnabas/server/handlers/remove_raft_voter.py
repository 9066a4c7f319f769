"""RemoveRaftVoter, version 0: a voter becomes an observer (KIP-853).

The rules are in `consensus.membership`. A leader that is removed leads until that is committed, and resigns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.consensus.voters import ReplicaKey
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    if request.cluster_id is not None and request.cluster_id != broker.cluster_id:
        return RemoveRaftVoterResponse(
            error_code=ErrorCode.INCONSISTENT_CLUSTER_ID,
            error_message=f"This is cluster {broker.cluster_id}, not {request.cluster_id}.",
        )
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    refusal = await broker.controller.voter_changes.remove(key)
    return RemoveRaftVoterResponse(error_code=refusal.error, error_message=refusal.message)
