"""This node's controller makes itself known to the cluster: where it is, and what it can do.

Always holds: it asks until the metadata log says that it is registered, in this very life of the process; a voter,
until the log has its present address; and one that is to join by itself, until it votes. Whoever is removed from the
voters later stays out of them until it starts again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.consensus.voters import Voter
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.server.peers import REQUEST_TIMEOUT_MS
from barnabas.server.quorum import quorum_setup
from barnabas.server.supervisor import OnFailure, ended
from barnabas.types import NO_LEADER

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

PURPOSE = "controller-registration"
RETRY_MS = 100


class ControllerRegistrant:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._broker.supervisor.start("controller registration", self._register, OnFailure.RETRY)

    async def stop(self) -> None:
        await ended(self._task)

    @property
    def _is_registered(self) -> bool:
        service = self._broker.controller
        known = service.image.controllers.get(self._broker.node_id)
        return known is not None and known.incarnation_id == service.incarnation_id

    async def _register(self) -> None:
        """Whoever is elected registers itself; the others ask it to."""
        quorum = self._broker.controller.quorum
        while not self._is_registered or self._moved() is not None or self._is_to_join:
            moved = self._moved()
            if quorum.leader_id not in (NO_LEADER, self._broker.node_id) and not self._is_registered:
                await self._ask()
            elif quorum.leader_id != NO_LEADER and moved is not None:
                await self._tell_move(moved)
            elif quorum.leader_id != NO_LEADER and self._is_to_join:
                await self._join()
            await asyncio.wait([quorum.news()], timeout=RETRY_MS / 1000)

    @property
    def _is_to_join(self) -> bool:
        """Who does not know the voters yet cannot say whether it is one."""
        quorum = self._broker.controller.quorum
        wants = self._broker.config.controller_quorum_auto_join_enable and quorum_setup.is_dynamic(self._broker.config)
        return wants and not quorum.raft.is_voter

    async def _join(self) -> None:
        """In the place of an earlier directory of this node, if there was one: that one is lost."""
        from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
        from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest

        quorum = self._broker.controller.quorum
        if quorum.voter_history.kraft_version == 0:
            return  # nothing is known of the voters
        replica = quorum.raft.replica
        known = quorum.raft.voters.get(replica.id)
        if known is not None:
            await self._request(
                RemoveRaftVoterRequest(
                    cluster_id=self._broker.cluster_id,
                    voter_id=known.key.id,
                    voter_directory_id=known.key.directory_id,
                )
            )
            return
        await self._request(
            AddRaftVoterRequest(
                cluster_id=self._broker.cluster_id,
                timeout_ms=REQUEST_TIMEOUT_MS,
                voter_id=replica.id,
                voter_directory_id=replica.directory_id,
                listeners=[
                    Listener(name=each.listener, host=each.host, port=each.port) for each in quorum.own.endpoints
                ],
                ack_when_committed=False,
            )
        )

    def _moved(self) -> Voter | None:
        """This node as a voter, where the log has another address of it."""
        quorum = self._broker.controller.quorum
        known = quorum.raft.voters.get(self._broker.node_id)
        is_in_log = quorum.voter_history.kraft_version > 0 and quorum.raft.is_voter
        if not is_in_log or known is None or known.endpoints == quorum.own.endpoints:
            return None
        return known._replace(endpoints=quorum.own.endpoints)

    async def _tell_move(self, voter: Voter) -> None:
        from barnabas.protocol.messages.update_raft_voter import KRaftVersionFeature, Listener, UpdateRaftVoterRequest

        least, most = voter.kraft_versions
        request = UpdateRaftVoterRequest(
            cluster_id=self._broker.cluster_id,
            current_leader_epoch=self._broker.controller.quorum.epoch,
            voter_id=voter.key.id,
            voter_directory_id=voter.key.directory_id,
            listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in voter.endpoints],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=least, max_supported_version=most),
        )
        await self._request(request)

    async def _ask(self) -> None:
        from barnabas.controller import features
        from barnabas.protocol.messages.controller_registration import (
            ControllerRegistrationRequest,
            Feature,
            Listener,
        )

        service = self._broker.controller
        request = ControllerRegistrationRequest(
            controller_id=self._broker.node_id,
            incarnation_id=service.incarnation_id,
            listeners=[Listener(name=each.listener, host=each.host, port=each.port) for each in service.own.endpoints],
            features=[
                Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
                for each in features.SUPPORTED
            ],
        )
        await self._request(request)

    async def _request(self, request: Message) -> None:
        try:
            answer = await self._broker.controller_channel.request(request, PURPOSE)
        except ConnectionLost as error:
            logger.debug("the controller cannot register yet: %s", error)
            return
        if answer.error_code != ErrorCode.NONE:
            logger.debug("the controller cannot register yet: %s", ErrorCode(answer.error_code).name)
