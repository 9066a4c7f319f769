"""The metadata quorum at work: carries out what `consensus.raft` decides, on the metadata log and among the voters.

    append (as leader) ─► sync, off the event loop ─┐
    fetches of the other voters ────────────────────┴► Raft ─► high watermark ─► on_committed
    as follower: fetch from the leader, append, sync, tell Raft, fetch again
                 too far behind: copy its snapshot part by part, check it, begin the log anew behind it

Always holds: what Raft wants persisted is on the platter before anybody hears of it; where that fails, nobody hears
anything more of this replica. One timer, for Raft's next
deadline. The fetch loop is the only thing that writes to a follower's log.
Does not know: what records mean; elections (Raft does); requests of clients.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from barnabas.client.connection import ConnectionLost
from barnabas.consensus import snapshot_file
from barnabas.consensus.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    EpochResponse,
    FetchPosition,
    FetchVerdict,
    LogEnd,
    Send,
    SnapshotPosition,
    SnapshotVerdict,
    VoteRequest,
    VoteResponse,
)
from barnabas.consensus.raft import Output, Raft, Timeouts
from barnabas.consensus.snapshot_file import InvalidSnapshot
from barnabas.consensus.voter_history import VoterHistory
from barnabas.consensus.voters import ReplicaKey, VoterSet
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.runtime.interfaces import Address, Runtime, Timer
from barnabas.server.peers import Peers
from barnabas.server.quorum import quorum_messages
from barnabas.server.quorum.metadata_log import MetadataLog
from barnabas.server.quorum.quorum_addresses import OwnEndpoints, QuorumAddresses
from barnabas.server.quorum.snapshot_files import PartialSnapshot
from barnabas.server.supervisor import OnFailure, Supervisor, ended, is_running
from barnabas.types import NO_LEADER, BrokerId, LeaderEpoch, Offset

logger = logging.getLogger(__name__)

FETCH_WAIT_MS_MAX = 500  # how long the leader may hold a fetch for which it has nothing
FETCH_BACKOFF_MS = 50  # after a fetch that failed, or found no leader
FAREWELL_SECONDS = 0.2  # for telling the others before a stop; they would find out by themselves
FETCH_PURPOSE = "quorum-fetch"
ELECTION_PURPOSE = "quorum"


class FetchSizes(NamedTuple):
    log_bytes_max: int = 1 << 20  # of the log at a time
    snapshot_bytes_max: int = 1 << 20  # of a snapshot at a time


class Quorum:
    def __init__(
        self,
        *,
        replica: ReplicaKey,
        cluster_id: str,
        log: MetadataLog,
        own: OwnEndpoints,
        bootstrap: tuple[Address, ...],
        timeouts: Timeouts,
        sizes: FetchSizes,
        peers: Peers,
        runtime: Runtime,
        supervisor: Supervisor,
        on_lead: Callable[[], None],
        on_cease: Callable[[], None],
        on_committed: Callable[[Offset], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.own = own
        self.addresses = QuorumAddresses(bootstrap, own.listener)
        self._cluster_id = cluster_id
        self._log = log
        self._peers = peers
        self._runtime = runtime
        self._supervisor = supervisor
        self._timeouts = timeouts
        self._sizes = sizes
        self._clock = runtime.clock
        self._on_lead = on_lead
        self._on_cease = on_cease
        self._on_committed = on_committed
        self._on_failure = on_failure
        self.raft = Raft(
            replica=replica,
            voters=log.voter_history.voters,
            election=log.read_election(),
            log=log,
            timeouts=timeouts,
            random=runtime.random,
            now_ms=self._clock.monotonic_ms(),
        )
        self._timer: Timer | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._fetch_task: asyncio.Task[None] | None = None
        self._partial: tuple[LeaderEpoch, PartialSnapshot] | None = None  # what is being copied, from which leader
        self._sends: dict[asyncio.Task[None], None] = {}
        self._news: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # see `news`
        self._known = (self.raft.role, self.raft.leader_id)  # as last told
        self._strangers: dict[BrokerId, None] = {}  # nodes that said that they belong to another cluster
        self._failure: Exception | None = None
        self._stopped = False

    # What others may know

    @property
    def leader_id(self) -> BrokerId:
        return self.raft.leader_id

    @property
    def epoch(self) -> LeaderEpoch:
        return self.raft.epoch

    @property
    def is_leader(self) -> bool:
        return self.raft.is_leader

    @property
    def high_watermark(self) -> Offset:
        return self.raft.high_watermark

    @property
    def voter_history(self) -> VoterHistory:
        return self._log.voter_history

    def address_of(self, node_id: BrokerId) -> Address | None:
        """Where a member of the quorum listens for the others, as far as this node has heard."""
        return self.addresses.of(node_id, self.raft.voters)

    def leader_endpoint(self) -> tuple[tuple[BrokerId, Address], ...]:
        """For those who asked the wrong node. Empty where none is known."""
        leader_id = self.raft.leader_id
        if self.is_leader and self.own.endpoints:
            return ((leader_id, (self.own.endpoints[0].host, self.own.endpoints[0].port)),)
        address = None if leader_id == NO_LEADER else self.address_of(leader_id)
        return () if address is None else ((leader_id, address),)

    def news(self) -> "asyncio.Future[None]":
        """Ends at the next change: of role or epoch, of the log's end, of the high watermark. Shared; do not cancel."""
        return self._news

    # Start and end

    def start(self) -> None:
        self._perform(self.raft.tick(self._clock.monotonic_ms()))
        self._fetch_task = self._supervisor.start("metadata fetch", self._follow, OnFailure.RETRY)

    async def stop(self) -> None:
        """A leader says good-bye first, so that the others need not find out by waiting."""
        self._stopped = True
        if self._failure is None:
            self._perform(self.raft.resign(self._clock.monotonic_ms()))
        farewells = tuple(self._sends)
        if farewells:
            await asyncio.wait(farewells, timeout=FAREWELL_SECONDS)
        await ended(self._fetch_task, *self._sends)
        if self._sync_task is not None:
            await asyncio.gather(self._sync_task, return_exceptions=True)
        self._drop_partial()

    # Raft's outputs

    def _perform(self, output: Output) -> None:
        """Raises what went wrong, now or earlier, and fails the broker.

        Raft's state is then ahead of the log or of the metadata image, so this replica may neither answer nor go on.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._carry_out(output)
        except Exception as error:
            self._failed(error)
            raise

    def _happened(self, event: Callable[[], Output]) -> None:
        """As `_perform`, for what nobody waits for: a deadline, an answer, a lost connection."""
        try:
            self._perform(event())
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
            self._on_failure(error)

    def _carry_out(self, output: Output) -> None:
        """In the order of the fields, which is the order in which they are safe."""
        if output.persist is not None:
            self._log.write_election(output.persist, self.raft.voters)
        if output.truncate_to is not None:
            self._log.truncate_to(output.truncate_to)
            self._heed_voters()
        if output.cease:
            self._on_cease()
        if output.lead:
            self._log.begin_epoch(self.raft.epoch, self.raft.replica.id, self.raft.voters)
            self._on_lead()
            self._sync_soon()
        if output.high_watermark is not None:
            self._log.committed(output.high_watermark)
            self._on_committed(output.high_watermark)
            if self.voter_history.offset < output.high_watermark:
                self._carry_out(self.raft.voters_committed(self._clock.monotonic_ms()))
        for send in output.send:
            self._start_sending(send)
        known = (self.raft.role, self.raft.leader_id)
        if output != Output() or known != self._known:
            if self.raft.leader_id != self._known[1]:
                self._log_leader()
            self._known = known
            self._tell()
        self._set_timer()

    def _log_leader(self) -> None:
        if self.raft.leader_id == NO_LEADER:
            logger.info("no leader of the metadata quorum is known, in epoch %d", self.epoch)
        else:
            logger.info("node %d leads the metadata quorum in epoch %d", self.raft.leader_id, self.epoch)

    def _heed_voters(self) -> None:
        """The log has grown or was cut: perhaps others vote now."""
        if self.voter_history.voters != self.raft.voters:
            logger.info("%s vote now", self.voter_history.voters)
            self.addresses.voters_changed(self.voter_history.voters)
            self._carry_out(self.raft.voters_changed(self.voter_history.voters, self._clock.monotonic_ms()))

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.get_running_loop().create_future()
        news.set_result(None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.raft.next_deadline_ms()
        if not self._stopped and deadline_ms < inf:
            delay_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
            self._timer = self._clock.call_later(delay_ms, self._tick)

    def _tick(self) -> None:
        self._happened(lambda: self.raft.tick(self._clock.monotonic_ms()))

    def _start_sending(self, send: Send) -> None:
        name = f"quorum request to node {send.to}"
        task = self._supervisor.start(name, lambda: self._send(send), OnFailure.ABANDON)
        self._sends[task] = None
        task.add_done_callback(self._sends.pop)

    async def _send(self, send: Send) -> None:
        peer = self._peers.get(send.to, ELECTION_PURPOSE)
        request = quorum_messages.encode(send.message, self._cluster_id, self.own)
        try:
            response = await peer.request(request)
        except ConnectionLost as error:
            logger.debug("no answer from voter %d: %s", send.to, error)
            return
        self._heed_cluster(send.to, response.error_code)
        self.addresses.learn(quorum_messages.endpoints_in(response))
        if isinstance(send.message, VoteRequest):
            answer = quorum_messages.decode_vote_response(response)
            pre_vote, now_ms = send.message.pre_vote, self._clock.monotonic_ms()
            self._happened(lambda: self.raft.receive_vote_response(send.to, answer, pre_vote, now_ms))

    def _heed_cluster(self, node_id: BrokerId, error_code: int) -> None:
        """Nothing here can mend it, so its owner must hear of it, but not at every try."""
        if error_code != ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._strangers.pop(node_id, None)
        elif node_id not in self._strangers:
            self._strangers[node_id] = None
            logger.error("node %d does not belong to cluster %s, as this node does", node_id, self._cluster_id)

    # As leader

    def append(self, records: Sequence[Message]) -> Offset:
        """One batch in the leader's epoch; its end offset. It counts once the high watermark has passed it."""
        assert self.is_leader
        end_offset = self._log.append(records)
        self._tell()
        self._sync_soon()
        return end_offset

    def append_voters(self, voters: VoterSet, kraft_version: int | None = None) -> Offset:
        """As `append`; they, and the level if there is a new one, count from now on."""
        assert self.is_leader
        assert voters.overlaps_majority_of(self.raft.voters)
        end_offset = self._log.append_voters(voters, kraft_version)
        self._heed_voters()
        self._tell()
        self._sync_soon()
        return end_offset

    def _sync_soon(self) -> None:
        if not is_running(self._sync_task):
            self._sync_task = self._supervisor.start("metadata sync", self._sync, OnFailure.STOP_BROKER)

    async def _sync(self) -> None:
        """Group commit: each round takes along all that was appended while the one before it ran."""
        synced = -1
        while self.is_leader and synced < self._log.end_offset and self._failure is None:
            epoch, end_offset = self.epoch, self._log.end_offset
            try:
                await self._runtime.offload(self._log.sync)
            except OSError as error:
                self._failed(error)
                return
            if self.epoch == epoch:  # else what was synced may have been cut and written anew since
                synced = end_offset
                self._synced(end_offset)

    def _synced(self, end_offset: Offset) -> None:
        self._happened(lambda: self.raft.synced(end_offset, self._clock.monotonic_ms()))

    def voter_gone(self, node_id: BrokerId) -> None:
        """The process of that node, if it is a voter's, is dead."""
        if not self._stopped and self._failure is None:
            self._happened(lambda: self.raft.voter_gone(node_id, self._clock.monotonic_ms()))

    def receive_fetch(self, position: FetchPosition) -> FetchVerdict:
        verdict, output = self.raft.receive_fetch(position, self._clock.monotonic_ms())
        self._perform(output)
        return verdict

    def receive_fetch_snapshot(self, position: SnapshotPosition) -> SnapshotVerdict:
        verdict, output = self.raft.receive_fetch_snapshot(position, self._clock.monotonic_ms())
        self._perform(output)
        return verdict

    # As follower

    async def _follow(self) -> None:
        while self._failure is None:
            position = self.raft.fetch_position()
            target = self._fetch_target()
            if position is None or target is None:
                await asyncio.shield(self._news)
                continue
            try:
                if self.raft.fetching is None:
                    await self._fetch(target, position)
                else:
                    await self._fetch_snapshot(target, self.raft.fetching)
            except ConnectionLost as error:
                logger.debug("cannot fetch metadata from node %d: %s", target, error)
                await self._clock.sleep(FETCH_BACKOFF_MS)
            except OSError as error:
                self._failed(error)

    def _fetch_target(self) -> BrokerId | None:
        """The leader, or where none is known somebody who may know it."""
        if self.raft.leader_id != NO_LEADER:
            return self.raft.leader_id
        others = tuple(voter.key.id for voter in self.raft.voters.others(self.raft.replica.id))
        others += self.addresses.bootstrap_ids
        return self._runtime.random.choice(others) if others else None

    async def _fetch(self, target: BrokerId, position: FetchPosition) -> None:
        peer = self._peers.get(target, FETCH_PURPOSE, lambda: self._lost(target))
        request = quorum_messages.fetch_request(
            position, self._cluster_id, self.raft.high_watermark, FETCH_WAIT_MS_MAX, self._sizes.log_bytes_max
        )
        response = await peer.request(request, FETCH_WAIT_MS_MAX + self._timeouts.fetch_ms)
        self._heed_cluster(target, response.error_code)
        verdict, records = quorum_messages.decode_fetch_response(response)
        self.addresses.learn(quorum_messages.endpoints_in(response))
        if self.raft.fetch_position() != position:
            return  # the world has moved on: an answer to an old question is worth nothing
        self._perform(self.raft.receive_fetch_response(target, verdict, self._clock.monotonic_ms()))
        if self.raft.fetch_position() != position or verdict.error or verdict.epoch != self.raft.epoch:
            if verdict.error:
                await self._clock.sleep(FETCH_BACKOFF_MS)
            return
        if verdict.diverging is not None or verdict.snapshot is not None:
            return  # what this log holds is not the leader's: none of it may count
        if records:
            self._log.append_from_leader(records)
            self._heed_voters()
            await self._runtime.offload(self._log.sync)
        if self.raft.epoch == verdict.epoch and self.raft.leader_id == target:
            self._perform(self.raft.appended(verdict.high_watermark))

    async def _fetch_snapshot(self, target: BrokerId, snapshot: LogEnd) -> None:
        """One part of it, from where the last one ended."""
        peer = self._peers.get(target, FETCH_PURPOSE, lambda: self._lost(target))
        partial = self._partial_of(snapshot)
        position = SnapshotPosition(self.raft.replica, self.raft.epoch, snapshot, partial.size_bytes)
        request = quorum_messages.fetch_snapshot_request(position, self._cluster_id, self._sizes.snapshot_bytes_max)
        verdict, data = quorum_messages.decode_fetch_snapshot_response(await peer.request(request))
        self._perform(self.raft.receive_fetch_snapshot_response(target, verdict, self._clock.monotonic_ms()))
        if self.raft.fetching != snapshot or verdict.epoch != self.raft.epoch:
            if verdict.error:
                await self._clock.sleep(FETCH_BACKOFF_MS)
            return
        partial.write(data)
        if verdict.position + len(data) != partial.size_bytes or (not data and partial.size_bytes < verdict.size_bytes):
            await self._refuse_snapshot("the leader sent another part than was asked for")
        elif partial.size_bytes >= verdict.size_bytes:
            await self._install_snapshot(partial)

    def _partial_of(self, snapshot: LogEnd) -> PartialSnapshot:
        """Parts of two leaders do not fit together: their snapshots hold the same, in other bytes."""
        epoch, partial = self._partial or (-1, None)
        if partial is None or epoch != self.raft.epoch or partial.snapshot != snapshot:
            self._drop_partial()
            partial = self._log.begin_snapshot(snapshot)
            self._partial = (self.raft.epoch, partial)
        return partial

    async def _install_snapshot(self, partial: PartialSnapshot) -> None:
        try:
            snapshot_file.decode(memoryview(partial.read()))
        except InvalidSnapshot as problem:
            await self._refuse_snapshot(str(problem))
            return
        await self._runtime.offload(partial.sync)
        if self.raft.fetching != partial.snapshot:
            return  # another leader, or none, while it was synced
        partial.publish()
        self._partial = None
        self._log.install_snapshot(partial.snapshot)
        self._heed_voters()
        logger.info("the metadata log begins anew at offset %d", partial.snapshot.end_offset)
        self._perform(self.raft.snapshot_installed())

    async def _refuse_snapshot(self, problem: str) -> None:
        logger.warning("a snapshot of the metadata that was copied cannot be used: %s", problem)
        self._drop_partial()
        self.raft.snapshot_refused()
        await self._clock.sleep(FETCH_BACKOFF_MS)

    def _drop_partial(self) -> None:
        if self._partial is not None:
            self._partial[1].abandon()
            self._partial = None

    def _lost(self, node_id: BrokerId) -> None:
        if not self._stopped and self._failure is None:
            self._happened(lambda: self.raft.connection_lost(node_id, self._clock.monotonic_ms()))

    # What other voters ask

    def receive_vote(self, request: VoteRequest) -> VoteResponse:
        response, output = self.raft.receive_vote(request, self._clock.monotonic_ms())
        self._perform(output)
        return response

    def receive_begin_epoch(self, request: BeginEpochRequest) -> EpochResponse:
        response, output = self.raft.receive_begin_epoch(request, self._clock.monotonic_ms())
        self._perform(output)
        return response

    def receive_end_epoch(self, request: EndEpochRequest) -> EpochResponse:
        response, output = self.raft.receive_end_epoch(request, self._clock.monotonic_ms())
        self._perform(output)
        return response
