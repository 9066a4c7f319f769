"""Following: what this broker's replicas take from one leader, with one connection and one session for all of them.

    name what moved ─► Fetch ─► each partition: append, cut, start afresh, or rest ─► name what moved ─► …

`replication.follower` decides what an answer means. Records go from the received frame into the log with one write.
Always holds: one request is out, or two where partitions came along while the leader held the first: the leader then
answers that one at once. An answer counts only for what was named in its request or before: whoever began to follow
anew since did not ask that question. Where `flush.messages` asks for it, what was appended is synced before the leader
hears of it.
Does not know: who leads; it is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from barnabas.client.connection import ClientConnection, ConnectionLost
from barnabas.client.peer import Peer
from barnabas.config.broker import BrokerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.replication.fetch_session import SESSION_ID_MAX
from barnabas.replication.follower import Action, EpochEnd, next_step
from barnabas.replication.throttle import Throttle
from barnabas.runtime.interfaces import Clock, Timer
from barnabas.server.peers import Peers
from barnabas.server.replicas.partition import Partition
from barnabas.server.supervisor import OnFailure, Supervisor, ended, is_running
from barnabas.types import BrokerId, LeaderEpoch, Uuid

logger = logging.getLogger(__name__)

PURPOSE = "replica-fetch"
REST_MS_MIN = 10  # doubled with each failure in a row, up to replica.fetch.backoff.ms
REQUESTS_IN_FLIGHT_MAX = 2
NOT_REGISTERED = -1
HOLD_MS_MAX = 500  # then who is throttled looks again: the rate may have changed
FULL_EPOCH = 0  # begins a session
FETCH_VERSION = 18

Key = tuple[Uuid, int]


class Followed:
    """One partition, for as long as it follows this leader in one epoch."""

    __slots__ = ("failures", "is_gone", "key", "leader_epoch", "named_in", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key: Key = (partition.topic_id, partition.name.partition)
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.named_in = -1  # the number of the request that named it first
        self.failures = 0  # in a row
        self.is_gone = False


class Fetcher:
    """From one leader."""

    def __init__(
        self,
        *,
        leader_id: BrokerId,
        node_id: BrokerId,
        peer: Peer,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        throttle: Throttle,
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        self.leader_id = leader_id
        self._node_id = node_id
        self._peer = peer
        self._config = config
        self._broker_epoch = broker_epoch
        self._throttle = throttle  # of all fetchers together
        self._clock = clock
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._followed: dict[Key, Followed] = {}

        # The session
        self._session_id = 0  # 0: none yet
        self._session_epoch = FULL_EPOCH  # the one that the next request carries
        self._in_session: dict[Key, None] = {}  # as the leader knows it
        self._gone: dict[Key, None] = {}  # to be forgotten in it
        self._moved: dict[Followed, None] = {}  # to be named

        # Those that cannot be named now
        self._unsynced: dict[Followed, None] = {}
        self._sync_task: asyncio.Task[None] | None = None
        self._resting: list[tuple[float, int, Followed]] = []  # a heap, by the time at which each may go on
        self._rest_timer: Timer | None = None

        # The connection
        self._connection: ClientConnection | None = None
        self._lost: asyncio.Future[Exception] = self._loop.create_future()
        self._in_flight = 0
        self._numbers = count()
        self._is_scheduled = False
        self._task = supervisor.start(f"fetching from broker {leader_id}", self._run, OnFailure.RETRY)

    def __len__(self) -> int:
        return len(self._followed)

    # What the metadata says

    def follow(self, partition: Partition) -> None:
        followed = Followed(partition)
        self._forget(followed.key)
        self._followed[followed.key] = followed
        self._gone.pop(followed.key, None)
        self._moved[followed] = None
        self._pump_soon()

    def unfollow(self, partition: Partition) -> None:
        self._forget((partition.topic_id, partition.name.partition))
        self._pump_soon()

    def _forget(self, key: Key) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            followed.is_gone = True
            self._moved.pop(followed, None)
            self._unsynced.pop(followed, None)
            if key in self._in_session:
                self._gone[key] = None

    async def stop(self) -> None:
        for key in tuple(self._followed):
            self._forget(key)  # an answer that is on its way finds nobody
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        await ended(self._task, self._sync_task)

    # The connection

    async def _run(self) -> None:
        """Connects, and again after each lost connection. Answers are handled as they come (`_take`)."""
        while self._broker_epoch() == NOT_REGISTERED:
            await self._clock.sleep(REST_MS_MIN)  # a leader must be able to tell this incarnation from earlier ones
        while True:
            try:
                await self._use(await self._peer.connected())
            except ConnectionLost as error:
                logger.debug("cannot fetch from broker %d: %s", self.leader_id, error)
                await self._clock.sleep(REST_MS_MIN)

    async def _use(self, connection: ClientConnection) -> None:
        """Until it is lost, which raises the reason."""
        self._lost = self._loop.create_future()
        self._begin_anew()
        self._in_flight = 0
        self._connection = connection
        try:
            self._pump()
            raise await self._lost
        finally:
            self._connection = None
            connection.close()

    def _pump_soon(self) -> None:
        """After the current burst of changes, so that one request names them all."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._is_scheduled = False
        connection = self._connection
        self._hold_back()
        if connection is None or not self._may_send():
            return
        config = self._config()
        number = next(self._numbers)
        request = self._request(number, config)
        self._in_flight += 1
        answer = connection.request_and_handle(
            request,
            FETCH_VERSION,
            lambda response: self._take(number, response),
            config.replica_fetch_wait_max_ms + config.replica_socket_timeout_ms,
        )
        answer.add_done_callback(lambda done: self._answered(connection, done))

    def _may_send(self) -> bool:
        if self._in_flight == 0:
            return bool(self._moved or len(self._in_session) > len(self._gone))
        return self._in_flight < REQUESTS_IN_FLIGHT_MAX and self._session_id != 0 and bool(self._moved or self._gone)

    def _answered(self, connection: ClientConnection, answer: asyncio.Future[None]) -> None:
        error = None if answer.cancelled() else answer.exception()
        if isinstance(error, Exception) and connection is self._connection and not self._lost.done():
            self._lost.set_result(error)

    # Asking

    def _hold_back(self) -> None:
        """Who is not in sync, and whose turn has not come at the rate that was set, is not named yet."""
        wait_ms = self._throttle.wait_ms(self._clock.monotonic_ms())
        if wait_ms > 0:
            for followed in tuple(self._moved):
                partition = followed.partition
                if partition.is_follower_throttled and self._node_id not in partition.in_sync:
                    del self._moved[followed]
                    self._rest_for(followed, min(wait_ms, HOLD_MS_MAX))

    def _request(self, number: int, config: BrokerConfig) -> FetchRequest:
        topics: dict[Uuid, FetchTopic] = {}
        for followed in self._moved:
            topic_id, _index = followed.key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, partitions=[])
            topic.partitions.append(self._position(followed, config))
            if followed.named_in < 0:
                followed.named_in = number
            self._in_session[followed.key] = None
        self._moved.clear()
        forgotten = self._forgotten()
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self._node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=forgotten,
        )
        self._session_epoch = 1 if self._session_epoch == SESSION_ID_MAX else self._session_epoch + 1
        return request

    def _position(self, followed: Followed, config: BrokerConfig) -> FetchPartition:
        log = followed.partition.log
        return FetchPartition(
            partition=followed.key[1],
            current_leader_epoch=followed.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epochs.latest_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=config.replica_fetch_max_bytes,
            high_watermark=log.high_watermark,
        )

    def _forgotten(self) -> list[ForgottenTopic]:
        topics: dict[Uuid, ForgottenTopic] = {}
        for topic_id, index in self._gone:
            del self._in_session[topic_id, index]
            topics.setdefault(topic_id, ForgottenTopic(topic_id=topic_id, partitions=[])).partitions.append(index)
        self._gone.clear()
        return list(topics.values())

    def _begin_anew(self) -> None:
        """The leader may not know the session any more: the next request names everything that does not rest."""
        self._session_id = 0
        self._session_epoch = FULL_EPOCH
        self._in_session.clear()
        self._gone.clear()
        resting = {followed for _due, _number, followed in self._resting}
        for followed in self._followed.values():
            if followed not in resting and followed not in self._unsynced:
                self._moved[followed] = None

    # Answers

    def _take(self, number: int, response: FetchResponse) -> None:
        """In the very moment in which it is received: the records lie in the connection's buffer."""
        self._in_flight -= 1
        self._peer.succeeded()
        if response.error_code != ErrorCode.NONE:
            error = ErrorCode(response.error_code)
            raise ConnectionLost(f"the leader refuses the session: {error.name}")
        self._session_id = response.session_id
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is not None and 0 <= followed.named_in <= number:
                    self._apply(followed, data)
        if response.session_id == 0:
            self._begin_anew()  # it keeps none
        if self._unsynced and not is_running(self._sync_task):
            name = f"syncing what broker {self.leader_id} sent"
            self._sync_task = self._supervisor.start(name, self._sync, OnFailure.RETRY)
        self._pump()

    def _apply(self, followed: Followed, data: PartitionData) -> None:
        try:
            self._carry_out(followed, data)
        except OSError as error:
            logger.error("%s: cannot follow, next try in a while: %s", followed.partition.name, error)
            followed.partition.follow_failed(error)
            self._rest(followed)
        except Exception as error:  # of one partition: the others of this answer must not suffer
            self._supervisor.report(f"following {followed.partition.name}", error, "it is retried")
            self._rest(followed)

    def _carry_out(self, followed: Followed, data: PartitionData) -> None:
        partition = followed.partition
        log = partition.log
        diverging = data.diverging_epoch
        step = next_step(
            error=ErrorCode(data.error_code),
            diverging=None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
            own_epoch_end=None if diverging is None else EpochEnd(*log.end_offset_for_epoch(diverging.epoch)),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            leader_log_start_offset=data.log_start_offset,
        )
        if step.action is Action.APPEND:
            self._append(followed, data)
            return
        if step.action is Action.TRUNCATE:
            before = (log.log_end_offset, log.leader_epochs.latest_epoch)
            log.truncate_to(step.offset, self._clock.now_ms())
            partition.truncated()
            if before != (log.log_end_offset, log.leader_epochs.latest_epoch):
                logger.info("%s: cut to %d, where it departs from its leader", partition.name, log.log_end_offset)
                self._moved[followed] = None
                return
        elif step.action is Action.START_AFRESH and step.offset >= 0:
            logger.info("%s: begins anew at %d: its leader's log has moved on", partition.name, step.offset)
            log.truncate_fully_and_start_at(step.offset, self._clock.now_ms())
            partition.truncated()
            self._moved[followed] = None
            return
        logger.debug("%s: rests: %s", partition.name, ErrorCode(data.error_code).name)
        self._rest(followed)

    def _append(self, followed: Followed, data: PartitionData) -> None:
        partition = followed.partition
        records: Any = data.records
        if records:
            info = partition.append_from_leader(records)
            if info.error != ErrorCode.NONE:
                logger.warning("%s: cannot take the leader's records: %s", partition.name, info.error_message)
                self._rest(followed)
                return
            if partition.is_follower_throttled:
                self._throttle.copied(len(records), self._clock.monotonic_ms())
            (self._unsynced if partition.sync_due else self._moved)[followed] = None
        followed.failures = 0
        if partition.learn_offsets(data.high_watermark, data.log_start_offset) and followed not in self._unsynced:
            self._moved[followed] = None

    async def _sync(self) -> None:
        while self._unsynced:
            followed = next(iter(self._unsynced))
            synced = await followed.partition.sync()
            if followed in self._unsynced:
                del self._unsynced[followed]
                if synced:
                    self._moved[followed] = None
                    self._pump()
                else:
                    self._rest(followed)

    # Resting

    def _rest(self, followed: Followed) -> None:
        """The leader is silent about it until it is named again."""
        followed.failures = min(followed.failures + 1, 16)
        config = self._config()
        self._rest_for(followed, min(REST_MS_MIN << (followed.failures - 1), config.replica_fetch_backoff_ms))

    def _rest_for(self, followed: Followed, rest_ms: float) -> None:
        due_ms = self._clock.monotonic_ms() + rest_ms
        heappush(self._resting, (due_ms, next(self._numbers), followed))
        if self._rest_timer is not None and self._resting[0][0] == due_ms:
            self._rest_timer.cancel()  # this one is due before the others
            self._rest_timer = None
        if self._rest_timer is None:
            self._rest_timer = self._clock.call_later(rest_ms, self._rested)

    def _rested(self) -> None:
        self._rest_timer = None
        now_ms = self._clock.monotonic_ms()
        while self._resting and self._resting[0][0] <= now_ms:
            followed = heappop(self._resting)[2]
            if not followed.is_gone:
                self._moved[followed] = None
        if self._resting:
            self._rest_timer = self._clock.call_later(max(0.0, self._resting[0][0] - now_ms), self._rested)
        self._pump_soon()


class Fetchers:
    """One for each leader that this broker follows."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        peers: Peers,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        clock: Clock,
        supervisor: Supervisor,
    ) -> None:
        self._node_id = node_id
        self._peers = peers
        self._config = config
        self._broker_epoch = broker_epoch
        self.throttle = Throttle()
        self._clock = clock
        self._supervisor = supervisor
        self._fetchers: dict[BrokerId, Fetcher] = {}
        self._leaders: dict[Partition, BrokerId] = {}  # whom each partition follows
        self._stopping: dict[asyncio.Task[None], None] = {}
        self._stopped = False  # from then on nobody is followed, whatever the metadata says

    def follow(self, partition: Partition) -> None:
        """The leader, and the epoch, that the partition now has."""
        if self._stopped:
            return
        self.unfollow(partition, moves_to=partition.leader_id)
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader_id] = Fetcher(
                leader_id=partition.leader_id,
                node_id=self._node_id,
                peer=self._peers.get(partition.leader_id, PURPOSE),
                config=self._config,
                broker_epoch=self._broker_epoch,
                throttle=self.throttle,
                clock=self._clock,
                supervisor=self._supervisor,
            )
        self._leaders[partition] = partition.leader_id
        fetcher.follow(partition)

    def unfollow(self, partition: Partition, moves_to: BrokerId | None = None) -> None:
        leader_id = self._leaders.pop(partition, None)
        if leader_id is None or leader_id == moves_to:
            return
        fetcher = self._fetchers[leader_id]
        fetcher.unfollow(partition)
        if not len(fetcher):
            del self._fetchers[leader_id]
            self._peers.forget(leader_id, PURPOSE)
            task = self._supervisor.start(f"end of fetching from broker {leader_id}", fetcher.stop, OnFailure.ABANDON)
            self._stopping[task] = None
            task.add_done_callback(self._stopping.pop)

    async def stop(self) -> None:
        self._stopped = True
        self._leaders.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()), *self._stopping)
        self._fetchers.clear()
