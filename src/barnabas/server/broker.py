"""One broker: builds its parts, starts them in order, and stops them in the reverse one. Reads top to bottom.

Always holds: nothing is served before the metadata is replayed and every log is open. The world comes in by `runtime`,
so the same class runs on a machine, in memory, and in a simulation.
"""

import asyncio
import logging
from collections.abc import Iterable

from barnabas.config.broker import BrokerConfig, effective
from barnabas.config.endpoints import Endpoint as ListenerAddress
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.log.log import Log
from barnabas.metadata.delta import MetadataDelta
from barnabas.metadata.image import Endpoint, MetadataImage, ResourceType
from barnabas.replication.fetch_session import FetchSessions
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.server.acceptor import Acceptor, Limits
from barnabas.server.context import RequestContext
from barnabas.server.controller_service import ControllerService
from barnabas.server.dispatch import Dispatcher
from barnabas.server.group_coordinator import GroupCoordinator
from barnabas.server.log_directory import LogDirectory
from barnabas.server.maintenance import Maintenance
from barnabas.server.partitions import Partitions
from barnabas.server.peers import Peers
from barnabas.server.telemetry import ClientTelemetry
from barnabas.types import BrokerId

logger = logging.getLogger(__name__)

SECURITY_PROTOCOL_PLAINTEXT = 0


class Broker:
    def __init__(self, config: BrokerConfig, runtime: Runtime) -> None:
        self.static_config = config  # from file and command line
        self.config = config  # with what was set while running; replaced as a whole
        self.runtime = runtime
        self.node_id = config.node_id
        self.cluster_id = ""  # known once the directory is open
        self.addresses: list[Address] = []  # as bound, in the order of `listeners`
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.directory = LogDirectory(runtime, config.data_directory)
        self.partitions = Partitions(node_id=config.node_id, directory=self.directory, config=config, runtime=runtime)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, runtime.random)
        self.acceptor = Acceptor(dispatcher=Dispatcher(self), runtime=runtime, limits=limits_of(config))
        self.peers = Peers(node_id=config.node_id, runtime=runtime, address_of=self._address_of)
        self.groups = GroupCoordinator(self)
        self.telemetry = ClientTelemetry(runtime)
        self.maintenance = Maintenance(self)
        self.controller: ControllerService

    async def start(self) -> None:
        self.directory.open()
        try:
            identity = self.directory.identify(self.node_id)
            self.cluster_id = identity.cluster_id
            self.addresses = [self.acceptor.listen(each.host, each.port) for each in self.config.listeners]
            self.controller = ControllerService(
                config=self.config,
                runtime=self.runtime,
                directory=self.config.metadata_log_dir or self.directory.path,
                cluster_id=self.cluster_id,
                voters=voters_of(self.config),
                peers=self.peers,
                on_change=self._changed,
                on_failure=self._failed,
                clean_shutdown=self.directory.was_clean,
            )
            await self.controller.start(directory_ids=(identity.directory_id,), endpoints=self._endpoints())
        except BaseException:
            self.acceptor.close()
            self.directory.close(clean=False)
            raise
        self.partitions.set_aside_strays(self.controller.image)
        self.maintenance.start()
        self.acceptor.start()
        logger.info("node %d of cluster %s serves at %s", self.node_id, self.cluster_id, self.addresses)

    async def stop(self) -> None:
        self.acceptor.close()
        self.groups.close()
        await self.maintenance.stop()
        await self.controller.stop()
        self.peers.close()
        logs = self.partitions.logs()
        for partition in self.partitions:
            partition.close()
        all_closed = await self.runtime.offload(lambda: close_all(logs.values()))
        self.directory.write_checkpoints(logs)
        self.directory.write_high_watermarks(logs)
        clean = all_closed and self.controller.failure is None
        self.directory.close(clean=clean, broker_epoch=self.controller.broker_epoch)
        logger.info("node %d stopped", self.node_id)

    def advertised(self, context: RequestContext) -> Address:
        """The address that a client is told: as set, or else the one that it dialled."""
        if self.config.advertised_listeners:
            endpoint = self.config.advertised_listeners[0]
            return endpoint.host, endpoint.port
        return context.local_address

    # What the metadata says

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type == ResourceType.BROKER for resource in delta.configs_changed):
            self._reconfigure(image)
        self.partitions.apply(delta, image)
        self.groups.apply(delta, image)

    def _reconfigure(self, image: MetadataImage) -> None:
        """What is set for this broker wins over what is set for all, and that over the file."""
        self.config, complaints = effective(
            self.static_config,
            image.config(ResourceType.BROKER, ""),
            image.config(ResourceType.BROKER, str(self.node_id)),
        )
        for complaint in complaints:
            logger.warning("a stored setting of brokers is left out: %s", complaint)
        self.acceptor.limits = limits_of(self.config)
        self.fetch_sessions.slots = self.config.max_incremental_fetch_session_cache_slots
        self.partitions.reconfigure(self.config, image)

    def _address_of(self, node_id: BrokerId, _purpose: str) -> Address | None:
        """Where another voter listens."""
        for voter in self.config.controller_quorum_voters:
            if voter.node_id == node_id:
                return voter.host, voter.port
        return None

    def _failed(self, error: Exception) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        """What other nodes and the metadata log know of this one."""
        bound = (
            ListenerAddress(listener.listener_name, host, port)
            for listener, (host, port) in zip(self.config.listeners, self.addresses, strict=True)
        )
        return tuple(
            Endpoint(each.listener_name, each.host, each.port, SECURITY_PROTOCOL_PLAINTEXT)
            for each in self.config.advertised_listeners or bound
        )


def close_all(logs: Iterable[Log]) -> bool:
    """Whether each was synced and closed in good order; if not, the next start must recover."""
    all_closed = True
    for log in logs:
        try:
            log.close()
        except OSError as error:
            logger.error("%s: cannot be closed, and will be recovered at the next start: %s", log.directory, error)
            all_closed = False
    return all_closed


def voters_of(config: BrokerConfig) -> VoterSet:
    """As configured; a node for which nothing is configured votes alone."""
    ids = [voter.node_id for voter in config.controller_quorum_voters] or [config.node_id]
    return VoterSet(Voter(ReplicaKey(voter_id)) for voter_id in ids)


def limits_of(config: BrokerConfig) -> Limits:
    return Limits(
        connections_max=config.max_connections,
        connections_per_address_max=config.max_connections_per_ip,
        frame_bytes_max=config.socket_request_max_bytes,
        requests_in_flight_max=config.queued_max_requests,
        idle_ms_max=config.connections_max_idle_ms,
    )
