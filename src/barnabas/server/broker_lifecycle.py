"""This node's broker as a member of its cluster: it registers, says that it lives, and asks for leave before it stops.

    register ─► heartbeat ─► … ─► unfenced: it may lead      stop: heartbeat «wants to shut down» until it may

Always holds: heartbeats never stop while the broker runs, and go on a connection of their own. A registration that the
controller does not know any more (STALE_BROKER_EPOCH) is made anew. Confirmed heartbeats renew the lease, without which
this broker answers nobody as leader or coordinator (`controller.broker_lease`).
Does not know: what the controller decides; it learns of that by the metadata log as everybody does.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.client.connection import ConnectionLost
from barnabas.controller.broker_lease import BrokerLease
from barnabas.errors import ErrorCode
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import Endpoint, MetadataImage
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.server.quorum.metadata_log import MetadataUnavailable
from barnabas.server.supervisor import OnFailure, ended
from barnabas.types import Uuid

if TYPE_CHECKING:
    from barnabas.server.broker import Broker

logger = logging.getLogger(__name__)

PURPOSE = "lifecycle"
RETRY_MS = 50  # while there is no controller, or the registration is not in the image yet
# DUPLICATE_BROKER_REGISTRATION: the session of the incarnation before this one has not ended yet.
PASSING = frozenset({ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.NOT_CONTROLLER})
SHUTDOWN_MS_MAX = 5_000  # a cluster that cannot move the leaders away is left without them


class BrokerLifecycle:
    def __init__(self, broker: Broker, *, directory_ids: tuple[Uuid, ...], endpoints: tuple[Endpoint, ...]) -> None:
        self.epoch = -1  # given by the controller
        self._broker = broker
        self._clock = broker.runtime.clock
        self._directory_ids = directory_ids
        self._endpoints = endpoints
        self._incarnation_id = new_uuid(broker.runtime.random)
        self._lease = BrokerLease(
            session_ms=broker.config.broker_session_timeout_ms,
            fetch_timeout_ms=broker.config.controller_quorum_fetch_timeout_ms,
        )
        self._reported_offset = -1  # of the metadata, as the last heartbeat said
        self._wants_shutdown = False
        self._task: asyncio.Task[None] | None = None

    @property
    def _timeout_ms(self) -> float:
        """A controller that is busy for a while must still be able to tell who lives."""
        return self._broker.config.broker_session_timeout_ms / 2

    @property
    def is_unfenced(self) -> bool:
        """As the metadata log says, of this very registration."""
        known = self._broker.controller.image.brokers.get(self._broker.node_id)
        return known is not None and known.epoch == self.epoch and not known.fenced

    @property
    def holds_lease(self) -> bool:
        """Whether this broker may act as the leader and coordinator that its metadata says it is."""
        return self._lease.holds(self._clock.monotonic_ms(), self._broker.controller.quorum.raft.majority_heard_ms)

    def is_known_to(self, image: MetadataImage) -> bool:
        """Whether this very process, and not one before it, is registered there."""
        known = image.brokers.get(self._broker.node_id)
        return known is not None and known.incarnation_id == self._incarnation_id

    async def start(self) -> None:
        """Returns once this broker may lead."""
        await self._register()
        self._task = self._broker.supervisor.start("broker heartbeats", self._beat, OnFailure.RETRY)
        while not (self.is_unfenced and self.holds_lease):
            await self._wait(RETRY_MS)

    async def stop(self, *, hand_over: bool = True) -> None:
        """Gives the controller the time to move leaders away first."""
        self._wants_shutdown = hand_over
        deadline_ms = self._clock.monotonic_ms() + SHUTDOWN_MS_MAX
        while hand_over and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            answer = await self._last_heartbeat(left_ms)
            if answer is None or answer.should_shut_down or answer.error_code != ErrorCode.NONE:
                break
            await self._wait(RETRY_MS)
        await ended(self._task)

    async def _last_heartbeat(self, wait_ms: float) -> BrokerHeartbeatResponse | None:
        """Not for longer: this very node may be the controller, of a quorum that is gone."""
        asking = self._broker.supervisor.awaited("last heartbeat", self._heartbeat())
        await asyncio.wait([asking], timeout=wait_ms / 1000)
        if not asking.done():
            asking.cancel()
            return None
        return asking.result()

    async def _register(self) -> None:
        from barnabas.controller import features

        request = BrokerRegistrationRequest(
            broker_id=self._broker.node_id,
            cluster_id=self._broker.cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                Listener(name=each.listener, host=each.host, port=each.port, security_protocol=each.security_protocol)
                for each in self._endpoints
            ],
            features=[
                Feature(name=each.name, min_supported_version=each.min_version, max_supported_version=each.max_version)
                for each in features.SUPPORTED
            ],
            rack=self._broker.config.broker_rack,
            log_dirs=list(self._directory_ids),
            previous_broker_epoch=self._broker.directory.clean_broker_epoch,
        )
        told = ""
        while True:
            reason = await self._ask_to_register(request)
            if reason is None:
                return
            if reason != told:
                logger.info("cannot register yet: %s", reason)
            told = reason
            await self._wait(RETRY_MS)

    async def _ask_to_register(self, request: BrokerRegistrationRequest) -> str | None:
        """Why not, where it may be asked again."""
        try:
            answer = await self._broker.controller_channel.request(request, PURPOSE, timeout_ms=self._timeout_ms)
        except ConnectionLost as error:
            return str(error)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.broker_epoch
            return None
        refused = ErrorCode(answer.error_code)
        if not refused.retriable and refused not in PASSING:
            raise MetadataUnavailable(f"node {self._broker.node_id} cannot register: {refused.name}")
        return refused.name

    async def _beat(self) -> None:
        while True:
            answer = await self._heartbeat()
            if answer is not None and answer.error_code == ErrorCode.STALE_BROKER_EPOCH:
                await self._register()
            elif answer is None or answer.error_code != ErrorCode.NONE or not self.is_unfenced:
                await self._wait(RETRY_MS)
            else:
                await self._rest(self._broker.config.broker_heartbeat_interval_ms)

    async def _heartbeat(self) -> BrokerHeartbeatResponse | None:
        """None where there was no answer."""
        self._reported_offset = self._broker.controller.image.offset
        by_itself = self._broker.controller.quorum.leader_id == self._broker.node_id
        sent_ms = self._clock.monotonic_ms()
        request = BrokerHeartbeatRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._reported_offset,
            want_fence=not self._broker.partitions.has_opened,  # who cannot read its logs must not lead
            want_shut_down=self._wants_shutdown,
        )
        try:
            answer = await self._broker.controller_channel.request(request, PURPOSE, timeout_ms=self._timeout_ms)
        except ConnectionLost as error:
            logger.debug("no answer to a heartbeat: %s", error)
            return None
        assert isinstance(answer, BrokerHeartbeatResponse)
        if answer.error_code == ErrorCode.NONE and not answer.is_fenced:
            self._lease.confirmed(sent_ms, by_itself=by_itself)
        elif answer.error_code in (ErrorCode.NONE, ErrorCode.STALE_BROKER_EPOCH):
            self._lease.refused()
        return answer

    async def _rest(self, interval_ms: float) -> None:
        """Until the next heartbeat is due: after the interval, or as soon as somebody waits for it.

        That is another controller, or a broker that shuts down: it may go when all others know who leads in its place.
        """
        quorum = self._broker.controller.quorum
        epoch = quorum.epoch
        deadline_ms = self._clock.monotonic_ms() + interval_ms
        while quorum.epoch == epoch and not self._is_awaited():
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if left_ms <= 0:
                return
            await self._wait(left_ms)

    def _is_awaited(self) -> bool:
        image = self._broker.controller.image
        return image.offset > self._reported_offset and any(
            each.in_controlled_shutdown and not each.fenced for each in image.brokers.values()
        )

    async def _wait(self, wait_ms: float) -> None:
        """Until something changes in the quorum, or for so long."""
        await asyncio.wait([self._broker.controller.quorum.news()], timeout=wait_ms / 1000)
