"""The controller at work: decides, writes, and once it is committed, tells the broker what changed.

    submit(decide) → decision over `head` → one batch in the metadata log → `head` moves at once
                   → the quorum commits it
                   → on every node: read from the log, `image` moves, `on_change(delta, image)`
                   → the submitter has its response

Always holds: between decide and append there is no await, so each decision sees all those before it. `image` holds
only what is committed and moves in the order of the log, on the leader as on every other node: a broker learns metadata
in no other way. Who does not lead has no head and decides nothing.
A failed sync ends the service: what the disk then holds is unknown. A failed append changes nothing and may be tried
again.
Does not know: what a request is; the rules are in `controller`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from barnabas.config.broker import BrokerConfig
from barnabas.consensus.raft import Timeouts
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.controller import bootstrap, brokers, lifecycle
from barnabas.controller.broker_sessions import BrokerSessions
from barnabas.controller.decision import Decision
from barnabas.controller.electorate import Electorate
from barnabas.controller.placement import ReplicaPlacer
from barnabas.errors import ErrorCode
from barnabas.metadata.apply import ImageBuilder, apply
from barnabas.metadata.delta import MetadataDelta, diff
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import EMPTY, Endpoint, MetadataImage
from barnabas.protocol.message import Message
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.server.controller.sessions_watch import SessionsWatch
from barnabas.server.peers import Peers
from barnabas.server.quorum.metadata_log import MetadataLog, MetadataUnavailable
from barnabas.server.quorum.quorum import FetchSizes, Quorum
from barnabas.server.quorum.quorum_addresses import NOWHERE, OwnEndpoints
from barnabas.server.quorum.snapshot_generator import SnapshotGenerator
from barnabas.server.quorum.voter_changes import VoterChanges
from barnabas.server.supervisor import Supervisor
from barnabas.types import ZERO_UUID, BrokerId, Offset, Uuid

logger = logging.getLogger(__name__)

SECURITY_PROTOCOL_PLAINTEXT = 0
R = TypeVar("R")
Commit = asyncio.Future[Exception | None]  # None once committed, else why it is not known to be

DIAL_PAUSES_MS = (0, 10, 50)  # more than once: a dying process may close its listeners last
DIAL_SECONDS_MAX = 1.0  # a host that takes longer to refuse is as good as silent
INHERITED_RECORDS_MIN = 100  # below, comparing two images takes longer than applying records
PENDING_SECONDS_MAX = 0.5  # for decisions under way when it stops; where the other voters are gone they never end


class NotController(MetadataUnavailable):
    """Another node decides now, or none."""


class Pending(NamedTuple):
    """Appended, and waiting to be committed."""

    end_offset: Offset
    committed: Commit


class ControllerService:
    def __init__(
        self,
        *,
        config: BrokerConfig,
        runtime: Runtime,
        directory: str,
        cluster_id: str,
        voters: VoterSet,
        peers: Peers,
        supervisor: Supervisor,
        directory_id: Uuid = ZERO_UUID,
        own: OwnEndpoints = NOWHERE,
        bootstrap: tuple[Address, ...] = (),
        on_change: Callable[[MetadataDelta, MetadataImage], None],
        on_failure: Callable[[Exception], None],
        clean_shutdown: bool = False,
    ) -> None:
        self.image = EMPTY  # committed, and told to the broker
        self.placer = ReplicaPlacer(runtime.random)
        self.sessions = BrokerSessions(config.broker_session_timeout_ms, config.controller_quorum_fetch_timeout_ms)
        self.sessions_watch = SessionsWatch(
            sessions=self.sessions,
            clock=runtime.clock,
            supervisor=supervisor,
            fence_one=self._fence_one,
            is_gone=self._is_gone,
            on_gone=lambda broker_id: self.quorum.voter_gone(broker_id),
        )
        self.failure: Exception | None = None  # what ended it, where that was not `stop`
        self._stopped = False
        self.incarnation_id = new_uuid(runtime.random)
        self.own = own
        self._head: MetadataImage | None = None  # while this node leads: `image`, and what is pending upon it
        self._inherited: tuple[MetadataImage, int] | None = None  # the first head, with its bytes, until committed
        self._pending: deque[Pending] = deque()  # in the order of the log
        self._on_change = on_change
        self._on_failure = on_failure
        self._config = config
        self._runtime = runtime
        self._log = MetadataLog.open(
            runtime.disk, directory, config, runtime.clock, voters=voters, clean_shutdown=clean_shutdown
        )
        self.quorum = Quorum(
            replica=ReplicaKey(config.node_id, directory_id),
            cluster_id=cluster_id,
            log=self._log,
            own=own,
            bootstrap=bootstrap,
            timeouts=timeouts_of(config),
            sizes=sizes_of(config),
            peers=peers,
            runtime=runtime,
            supervisor=supervisor,
            on_lead=self._lead,
            on_cease=self._cease,
            on_committed=self._committed,
            on_failure=self._fail,
        )
        self.voter_changes = VoterChanges(quorum=self.quorum, runtime=runtime)
        self.snapshots = SnapshotGenerator(log=self._log, config=config, runtime=runtime, supervisor=supervisor)

    @property
    def node_id(self) -> int:
        return self._config.node_id

    @property
    def log(self) -> MetadataLog:
        return self._log

    @property
    def high_watermark(self) -> Offset:
        """The end of what is committed."""
        return self.image.offset + 1

    # Start and end

    def start(self) -> None:
        """Takes up what the latest snapshot holds, and joins the quorum."""
        self._load_snapshot()
        self.quorum.start()

    async def stop(self) -> None:
        """Lets what is pending end, if that is soon. Nothing may be submitted afterwards."""
        if self._pending:
            await asyncio.wait([each.committed for each in self._pending], timeout=PENDING_SECONDS_MAX)
        self._stopped = True
        self._fail_pending(NotController("this node stops; what was asked may have been done or not"))
        self.sessions_watch.end()
        await self.quorum.stop()
        await self.snapshots.stop()
        await self._runtime.offload(self._log.close)

    # What the quorum says

    def _lead(self) -> None:
        """The log, committed or not, is what this leader builds upon."""
        builder = ImageBuilder(self.image)
        offset, leader_epoch, timestamp_ms = self.image.offset, self.image.leader_epoch, self.image.timestamp_ms
        size_bytes = 0
        for header, records in self._log.batches(self.image.offset + 1, self._log.end_offset):
            for record in records:
                builder.apply(record)
            size_bytes += header.size_bytes
            offset, leader_epoch, timestamp_ms = header.last_offset, header.leader_epoch, header.max_timestamp_ms
        self._head, _ = builder.build(offset=offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms)
        if builder.transaction_open:
            from barnabas.protocol.messages.abort_transaction_record import AbortTransactionRecord

            # Its leader went away in the middle of it. The image never saw its records, the log must say so.
            end_offset = self.quorum.append([AbortTransactionRecord(reason="the leader that began it is gone")])
            self._head = self._head._replace(offset=end_offset - 1)
        else:
            self._inherited = (self._head, size_bytes)
        if not self._head.features:
            self._append(bootstrap.records(self._config))
        registered = self._head.controllers.get(self.node_id)
        if registered is None or registered.incarnation_id != self.incarnation_id:
            endpoints = tuple(Endpoint(*each, SECURITY_PROTOCOL_PLAINTEXT) for each in self.own.endpoints)
            self._append(brokers.register_controller(self._head, self.node_id, self.incarnation_id, endpoints).records)
        # A decision without records waits for what it was decided upon, so also for what others had appended.
        self._pending.append(Pending(self._log.end_offset, asyncio.get_running_loop().create_future()))
        self.sessions_watch.begin(self._head, own_id=self.node_id, former_id=self.quorum.raft.lost_leader_id)

    async def _fence_one(self) -> BrokerId | None:
        now_ms = self._runtime.clock.monotonic_ms()
        return await self.respond(
            lambda image, _offset: lifecycle.fence_expired(Electorate(image, self._config), self.sessions, now_ms),
            lambda _error: None,
        )

    async def _is_gone(self, broker_id: BrokerId) -> bool:
        """Whether nobody listens where the broker did. A host that does not answer says nothing about its process."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or not broker.endpoints:
            return False
        endpoint = broker.endpoint(self._config.inter_broker_listener_name or "") or broker.endpoints[0]
        for pause_ms in DIAL_PAUSES_MS:
            await self._runtime.clock.sleep(pause_ms)
            try:
                dialling = self._runtime.network.connect(endpoint.host, endpoint.port)
                socket = await asyncio.wait_for(dialling, DIAL_SECONDS_MAX)
            except ConnectionRefusedError:
                return True
            except (OSError, TimeoutError):
                return False
            socket.close()
        return False

    def _cease(self) -> None:
        self._head = self._inherited = None
        self.sessions_watch.end()
        self._fail_pending(NotController("another node may decide now; what was asked may have been done or not"))

    def _committed(self, high_watermark: Offset) -> None:
        """On every node: what was committed is read from the log and told."""
        if self.image.offset + 1 < self._log.start_offset:
            self._load_snapshot()
        self._commit_inherited(high_watermark)
        builder = ImageBuilder(self.image)
        offset, leader_epoch, timestamp_ms = -1, -1, -1
        size_bytes = 0
        for header, records in self._log.batches(self.image.offset + 1, high_watermark):
            for record in records:
                builder.apply(record)
            size_bytes += header.size_bytes
            offset, leader_epoch, timestamp_ms = header.last_offset, header.leader_epoch, header.max_timestamp_ms
        if offset >= 0 and not builder.transaction_open:  # of an open transaction all is told when it ends
            self.image, delta = builder.build(offset=offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms)
            self._on_change(delta, self.image)
            self.snapshots.applied(self.image, size_bytes)
        while self._pending and self._pending[0].end_offset <= high_watermark:
            self._pending.popleft().committed.set_result(None)

    def _commit_inherited(self, high_watermark: Offset) -> None:
        """What a new leader has read once need not be read and applied again: after a start that is the whole log."""
        if self._inherited is None or self._inherited[0].offset >= high_watermark:
            return
        (inherited, size_bytes), self._inherited = self._inherited, None
        if inherited.offset - self.image.offset >= INHERITED_RECORDS_MIN:
            before, self.image = self.image, inherited
            self._on_change(diff(before, inherited), inherited)
            self.snapshots.applied(inherited, size_bytes)

    def _load_snapshot(self) -> None:
        """The latest one takes the place of all that was before it, if there is any that this node has not seen."""
        latest = self._log.snapshot
        if latest is None or latest.end_offset <= self.image.offset + 1:
            return
        snapshot, head, records = self._log.read_snapshot()
        builder = ImageBuilder()
        for record in records:
            builder.apply(record)
        before = self.image
        self.image, _all = builder.build(
            offset=snapshot.end_offset - 1, leader_epoch=snapshot.last_epoch, timestamp_ms=head.last_contained_ms
        )
        self._on_change(diff(before, self.image), self.image)

    # Work

    async def submit(self, decide: Callable[[MetadataImage, Offset], Decision[R]]) -> R:
        """Decides over the newest state and the next offset; the response comes when the decision is committed.

        A decision without records waits too, for those that it may have been decided upon.
        Raises NotController where another node decides, MetadataUnavailable where the log cannot be written.
        """
        if self._stopped or self.failure is not None:
            raise MetadataUnavailable("the controller has stopped") from self.failure
        if self._head is None:
            raise NotController("this node does not lead the quorum")
        decision = decide(self._head, self._log.end_offset)
        if decision.records:
            try:
                self._append(decision.records)
            except OSError as error:
                logger.error("The metadata log cannot be written: %s", error)
                raise MetadataUnavailable("the metadata log cannot be written") from error
            committed: Commit = asyncio.get_running_loop().create_future()
            self._pending.append(Pending(self._log.end_offset, committed))
        if self._pending:
            failure = await asyncio.shield(self._pending[-1].committed)
            if failure is not None:
                raise MetadataUnavailable("the decision is not known to be committed") from failure
        return decision.response

    async def respond(
        self, decide: Callable[[MetadataImage, Offset], Decision[R]], failed: Callable[[ErrorCode], R]
    ) -> R:
        """As `submit`, for handlers: where nothing can be decided, the response says why."""
        try:
            return await self.submit(decide)
        except NotController:
            return failed(ErrorCode.NOT_CONTROLLER)
        except MetadataUnavailable:
            return failed(ErrorCode.KAFKA_STORAGE_ERROR)

    def _append(self, records: Sequence[Message]) -> None:
        """Applied first: a record that contradicts the image must never reach the log."""
        assert self._head is not None
        image, _delta = apply(
            self._head,
            records,
            offset=self._log.end_offset + len(records) - 1,
            leader_epoch=self.quorum.epoch,
            timestamp_ms=self._runtime.clock.now_ms(),
        )
        end_offset = self.quorum.append(records)
        assert end_offset == image.offset + 1
        self._head = image

    def _fail(self, error: Exception) -> None:
        """The metadata cannot be written, or what it says not be done, for instance a log opened.

        What the disk holds now is unknown, so nothing more may be built upon it.
        """
        logger.error("the metadata cannot be written or carried out: %s", error)
        self.failure = error
        self._fail_pending(error)
        self._on_failure(error)

    def _fail_pending(self, error: Exception) -> None:
        while self._pending:
            self._pending.popleft().committed.set_result(error)


def sizes_of(config: BrokerConfig) -> FetchSizes:
    return FetchSizes(config.controller_quorum_fetch_max_bytes, config.controller_quorum_fetch_snapshot_max_bytes)


def timeouts_of(config: BrokerConfig) -> Timeouts:
    return Timeouts(
        election_ms=config.controller_quorum_election_timeout_ms,
        fetch_ms=config.controller_quorum_fetch_timeout_ms,
        backoff_ms_max=config.controller_quorum_election_backoff_max_ms,
    )
