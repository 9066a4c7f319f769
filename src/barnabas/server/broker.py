"""One broker: builds its parts, starts them in order, and stops them in the reverse one. Reads top to bottom.

Always holds: nothing is served before the metadata is replayed and every log is open; voters are answered meanwhile.
The world comes in by `runtime`, so the same class runs on a machine, in memory, and in a simulation.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from barnabas.config.broker import BrokerConfig, effective
from barnabas.config.endpoints import WILDCARD_HOSTS, told
from barnabas.config.endpoints import Endpoint as ListenerAddress
from barnabas.log.log import Log
from barnabas.metadata.delta import MetadataDelta, diff
from barnabas.metadata.image import EMPTY, Endpoint, MetadataImage, ResourceType
from barnabas.replication.fetch_session import FetchSessions
from barnabas.replication.throttle import Throttle
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.server.acceptor import Acceptor, Limits
from barnabas.server.broker_lifecycle import BrokerLifecycle
from barnabas.server.context import ListenerKind, RequestContext
from barnabas.server.controller.controller_channel import ControllerChannel
from barnabas.server.controller.controller_registrant import ControllerRegistrant
from barnabas.server.controller.controller_service import ControllerService
from barnabas.server.controller.leader_elections import LeaderElections
from barnabas.server.coordinators.group_coordinator import GroupCoordinator
from barnabas.server.coordinators.producer_ids import ProducerIds
from barnabas.server.coordinators.transaction_coordinator import TransactionCoordinator
from barnabas.server.dispatch import Around, Dispatcher
from barnabas.server.peers import Peers
from barnabas.server.quorum import quorum_setup
from barnabas.server.replicas.alter_partition import PURPOSE as ALTER_PARTITION_PURPOSE
from barnabas.server.replicas.alter_partition import InSyncChanges
from barnabas.server.replicas.fetcher import Fetchers
from barnabas.server.replicas.log_cleaner import LogCleaner
from barnabas.server.replicas.log_directory import LogDirectory
from barnabas.server.replicas.maintenance import Maintenance
from barnabas.server.replicas.partition import Partition
from barnabas.server.replicas.partitions import Partitions
from barnabas.server.replicas.record_work import RecordWork
from barnabas.server.replicas.replica_fetch import ReplicaSessions
from barnabas.server.supervisor import Supervisor
from barnabas.server.telemetry import ClientTelemetry
from barnabas.types import BrokerId

logger = logging.getLogger(__name__)

SECURITY_PROTOCOL_PLAINTEXT = 0
LOGS_CLOSED_AT_ONCE = 16  # as many as are offloaded at once
# What is said to other brokers where they listen for brokers; all else is said to voters.
TO_BROKERS = ("replica-fetch", "transactions", "transaction-markers")


class Broker:
    def __init__(self, config: BrokerConfig, runtime: Runtime, around: Around | None = None) -> None:
        self._around = around  # stands between clients and handlers; in tests only
        self.static_config = config  # from file and command line
        self.config = config  # with what was set while running; replaced as a whole
        self.runtime = runtime
        self.node_id = config.node_id
        self.cluster_id = ""  # known once the directory is open
        self._bound: list[ListenerAddress] = []  # the listeners for clients and brokers, with their real ports
        self._controllers_bound: list[ListenerAddress] = []  # those for controllers, likewise
        self._advertised: tuple[ListenerAddress, ...] = ()  # what others are told of the former, once they are bound
        self.failed: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self.supervisor = Supervisor(clock=runtime.clock, on_failure=self._failed)
        self.directory = LogDirectory(runtime, config.data_directory)
        self.peers = Peers(node_id=config.node_id, runtime=runtime, address_of=self._address_of)
        self.fetchers = Fetchers(
            node_id=config.node_id,
            peers=self.peers,
            config=lambda: self.config,
            broker_epoch=lambda: self.lifecycle.epoch,
            clock=runtime.clock,
            supervisor=self.supervisor,
        )
        self.in_sync_changes = InSyncChanges(
            node_id=config.node_id,
            broker_epoch=lambda: self.lifecycle.epoch,
            send=lambda request: self.controller_channel.request(request, ALTER_PARTITION_PURPOSE),
            clock=runtime.clock,
            supervisor=self.supervisor,
        )
        self.partitions = Partitions(
            node_id=config.node_id,
            directory=self.directory,
            config=config,
            runtime=runtime,
            supervisor=self.supervisor,
            fetchers=self.fetchers,
            in_sync_changes=self.in_sync_changes,
            on_opened=self._opened,
            on_failure=self._failed,
            holds_lease=lambda: self.lifecycle.holds_lease,
        )
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, runtime.random)
        self.replica_sessions = ReplicaSessions(runtime.random)
        self.leader_throttle = Throttle()
        self.record_work = RecordWork(runtime)
        self.acceptor = self._acceptor(ListenerKind.BROKERS)
        self.controller_acceptor = self._acceptor(ListenerKind.CONTROLLERS)
        self.groups = GroupCoordinator(self)
        self.transactions = TransactionCoordinator(self)
        self.telemetry = ClientTelemetry(runtime)
        self.maintenance = Maintenance(self)
        self.log_cleaner = LogCleaner(self)
        self.leader_elections = LeaderElections(self)
        self.controller_channel = ControllerChannel(self)
        self.controller_registrant = ControllerRegistrant(self)
        self.producer_ids = ProducerIds(self)
        self.controller: ControllerService
        self.lifecycle: BrokerLifecycle
        self._is_registered = False  # whether the metadata knows of this very process

    async def start(self) -> None:
        self.directory.open()
        try:
            metadata_directory = self.config.metadata_log_dir or self.directory.path
            if not self.directory.is_identified:
                joined = await quorum_setup.join(self.config, self.runtime, metadata_directory)
                self.directory.identify(self.node_id, joined)
            identity = self.directory.identify(self.node_id)
            self.cluster_id = identity.cluster_id
            self._listen()
            own = quorum_setup.own_endpoints(self.config, self._controllers_bound)
            quorum_setup.take_place(self.config, self.runtime, metadata_directory, identity.directory_id, own)
            self.controller = ControllerService(
                config=self.config,
                runtime=self.runtime,
                directory=metadata_directory,
                cluster_id=self.cluster_id,
                voters=quorum_setup.voters_of(self.config),
                directory_id=identity.directory_id,
                own=own,
                bootstrap=quorum_setup.bootstrap_of(self.config),
                peers=self.peers,
                supervisor=self.supervisor,
                on_change=self._changed,
                on_failure=self._failed,
                clean_shutdown=self.directory.was_clean,
            )
            self.lifecycle = BrokerLifecycle(self, directory_ids=(identity.directory_id,), endpoints=self._endpoints())
            self.controller_acceptor.start()
            self.controller.start()
            if quorum_setup.is_controller(self.config):
                self.controller_registrant.start()
            if quorum_setup.is_broker(self.config):
                await self._register()
        except BaseException:
            self.controller_acceptor.close()
            self.acceptor.close()
            await self.partitions.stop()
            await self.directory.close(clean=False)
            raise
        self.leader_elections.start()
        if quorum_setup.is_broker(self.config):
            self.partitions.set_aside_strays(self.controller.image)
            self.maintenance.start()
            self.log_cleaner.start()
            self.acceptor.start()
        served = ", ".join(f"{host}:{port}" for host, port in self.addresses)
        logger.info("node %d of cluster %s serves at %s", self.node_id, self.cluster_id, served)

    async def _register(self) -> None:
        """Until this broker may lead, which never happens if its metadata log fails meanwhile."""
        registering = self.supervisor.awaited("broker registration", self.lifecycle.start())
        try:
            await asyncio.wait((registering, self.failed), return_when=asyncio.FIRST_COMPLETED)
            if registering.done():
                registering.result()
            if self.failed.done():
                raise self.failed.result()
        finally:
            registering.cancel()

    async def stop(self, *, hand_over: bool = True) -> None:
        """`hand_over` lets others lead what this broker leads; pointless where all of them stop together."""
        if quorum_setup.is_broker(self.config):
            await self.lifecycle.stop(hand_over=hand_over and self.config.controlled_shutdown_enable)
        await self.controller_registrant.stop()
        self.acceptor.close()
        self.transactions.close()
        self.groups.close()
        await self.leader_elections.stop()
        await self.log_cleaner.stop()
        await self.maintenance.stop()
        await self.fetchers.stop()
        await self.in_sync_changes.stop()
        await self.controller.stop()
        self.controller_acceptor.close()
        self.peers.close()
        await self.partitions.stop()
        logs = self.partitions.logs()
        for partition in self.partitions:
            partition.close()
        all_closed = await self._close_logs(list(logs.values()))
        await self.supervisor.stop()
        try:
            await self.directory.write_checkpoints(self.partitions)
            await self.directory.write_high_watermarks(self.partitions)
        except OSError as error:
            logger.error("%s: checkpoints cannot be written: %s", self.directory.path, error)
            all_closed = False
        unrecovered = not self.directory.was_clean and bool(self.partitions.unopened)
        clean = all_closed and not unrecovered and not self.failed.done()
        await self.directory.close(clean=clean, broker_epoch=self.lifecycle.epoch)
        logger.info("node %d stopped", self.node_id)

    async def _close_logs(self, logs: list[Log]) -> bool:
        """Side by side: nearly all of it is waiting for the disk."""
        parts = [logs[number::LOGS_CLOSED_AT_ONCE] for number in range(min(LOGS_CLOSED_AT_ONCE, len(logs)))]
        return all(await asyncio.gather(*(self.runtime.offload(partial(close_all, part)) for part in parts)))

    def advertised(self, context: RequestContext) -> Address:
        """The address that a client is told: that of the listener that it dialled. Where the settings name no host, it
        is the one that the client dialled."""
        name = self.listener_name(context)
        endpoint = next((each for each in self._advertised if each.listener_name == name), None)
        if endpoint is None:
            if not self._advertised:
                return context.local_address
            endpoint = self._advertised[0]
        host = context.local_address[0] if endpoint.host in WILDCARD_HOSTS else endpoint.host
        return host, endpoint.port

    def listener_name(self, context: RequestContext) -> str:
        """Of the listener that a client dialled; it can be told by its port."""
        return next((each.listener_name for each in self._bound if each.port == context.local_address[1]), "")

    def _acceptor(self, kind: ListenerKind) -> Acceptor:
        return Acceptor(
            dispatcher=Dispatcher(self, kind, self._around),
            runtime=self.runtime,
            supervisor=self.supervisor,
            limits=limits_of(self.config),
            on_closed=self._connection_closed if kind is ListenerKind.CONTROLLERS else None,
        )

    def _connection_closed(self, peer_address: Address) -> None:
        self.controller.sessions_watch.connection_closed(peer_address)

    def _listen(self) -> None:
        send_buffer_bytes = self.config.socket_send_buffer_bytes
        for each in self.config.listeners:
            if each.listener_name in self.config.controller_listener_names:
                host, port = self.controller_acceptor.listen(each.host, each.port, send_buffer_bytes)
                self._controllers_bound.append(ListenerAddress(each.listener_name, each.host, port))
            else:
                host, port = self.acceptor.listen(each.host, each.port, send_buffer_bytes)
                self._bound.append(ListenerAddress(each.listener_name, host, port))
        self._advertised = told(self.config.advertised_listeners or self.config.listeners, self._bound)

    @property
    def addresses(self) -> list[Address]:
        """Where clients reach it, as bound, in the order of `listeners`; of a controller alone, where others do."""
        return [(each.host, each.port) for each in self._bound or self._controllers_bound]

    # What the metadata says

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type == ResourceType.BROKER for resource in delta.configs_changed):
            self._reconfigure(image)
        self.leader_elections.apply(delta, image)
        if not self._is_registered:
            if not self.lifecycle.is_known_to(image):
                return  # what was given to an earlier process is not this one's: it may have lost what that one had
            self._is_registered = True
            delta = diff(EMPTY, image)
        self.partitions.apply(delta, image)
        self.groups.apply(delta, image)
        self.transactions.apply(delta, image)

    def _opened(self, partition: Partition, image: MetadataImage) -> None:
        self.groups.opened(partition, image)
        self.transactions.opened(partition, image)

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
        now_ms = self.runtime.clock.monotonic_ms()
        self.leader_throttle.changed(self.config.leader_replication_throttled_rate, now_ms)
        self.fetchers.throttle.changed(self.config.follower_replication_throttled_rate, now_ms)
        self.partitions.reconfigure(self.config, image)

    def _address_of(self, node_id: BrokerId, purpose: str) -> Address | None:
        """Where another broker listens for brokers, or another voter for voters."""
        if purpose in TO_BROKERS:
            return self._broker_address(node_id)
        return self.controller.quorum.address_of(node_id)

    def _broker_address(self, node_id: BrokerId) -> Address | None:
        known = self.controller.image.brokers.get(node_id)
        if known is None or not known.endpoints:
            return None
        endpoint = known.endpoint(self.config.inter_broker_listener_name or "") or known.endpoints[0]
        return endpoint.host, endpoint.port

    def _failed(self, error: Exception) -> None:
        """Whoever runs this broker waits for `failed`, and stops it."""
        if not self.failed.done():
            self.failed.set_result(error)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        """What other nodes and the metadata log know of this one."""
        return tuple(
            Endpoint(each.listener_name, each.host, each.port, SECURITY_PROTOCOL_PLAINTEXT) for each in self._advertised
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


def limits_of(config: BrokerConfig) -> Limits:
    return Limits(
        connections_max=config.max_connections,
        connections_per_address_max=config.max_connections_per_ip,
        frame_bytes_max=config.socket_request_max_bytes,
        requests_in_flight_max=config.queued_max_requests,
        idle_ms_max=config.connections_max_idle_ms,
    )
