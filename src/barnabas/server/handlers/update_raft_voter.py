"""UpdateRaftVoter, version 0, on listeners of controllers: a voter has another address, or speaks other versions.

The rules are in `consensus.membership`. Every answer says who leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
    quorum = broker.controller.quorum
    error = ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.cluster_id is None or request.cluster_id == broker.cluster_id:
        error = quorum.raft.leader_error(request.current_leader_epoch)
    if error == ErrorCode.NONE:
        feature = request.kraft_version_feature
        voter = Voter(
            key=ReplicaKey(request.voter_id, request.voter_directory_id),
            endpoints=tuple(VoterEndpoint(each.name, each.host, each.port) for each in request.listeners),
            kraft_versions=(feature.min_supported_version, feature.max_supported_version),
        )
        error = (await broker.controller.voter_changes.update(voter)).error
    leader = CurrentLeader(leader_id=quorum.leader_id, leader_epoch=quorum.epoch)
    for _leader_id, (host, port) in quorum.leader_endpoint():
        leader.host, leader.port = host, port
    return UpdateRaftVoterResponse(error_code=error, current_leader=leader)
