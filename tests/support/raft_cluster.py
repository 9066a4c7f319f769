"""A cluster of pure Raft replicas in one thread: logs are lists, the network is a heap of deliveries, time is a number.

Faults come from one seed: messages lost and delayed, replicas crashed and restarted with what they had made durable,
pairs of replicas cut off from each other, snapshots taken and what they hold cut off, voters added and removed. Checks
after every step what must always hold.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from barnabas.consensus import membership
from barnabas.consensus.membership import Refusal
from barnabas.consensus.messages import (
    BeginEpochRequest,
    EndEpochRequest,
    FetchPosition,
    LogEnd,
    Send,
    SnapshotPosition,
    VoteRequest,
)
from barnabas.consensus.raft import Election, Output, Raft, Role, Timeouts
from barnabas.consensus.snapshot_file import SnapshotHead
from barnabas.consensus.voter_history import VoterHistory
from barnabas.consensus.voters import ReplicaKey, Voter, VoterSet
from barnabas.errors import ErrorCode

Entry = tuple[int, str]  # epoch and value; «voters 1 2» says who votes
TIMEOUTS = Timeouts(election_ms=100, fetch_ms=200, backoff_ms_max=100)
FETCH_INTERVAL_MS = 20
PART = 2  # entries of a snapshot that are copied at once


class ListLog:
    """What a crash leaves of it is `synced` entries. What lies before `start` is only there as the latest snapshot."""

    def __init__(self, voters: VoterSet | None = None) -> None:
        self.voters = voters or VoterSet()  # those that it began with
        self.entries: list[Entry] = []
        self.synced = 0
        self.start = LogEnd(-1, 0)
        self.snapshots: list[LogEnd] = []  # the oldest is at `start`, where anything was cut off

    @property
    def snapshot(self) -> LogEnd | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.entries[-1][0] if self.entries else -1, len(self.entries))

    def may_vote(self, replica: ReplicaKey, committed: int) -> bool:
        return self.history().may_vote(replica, committed)

    def end_of_epoch(self, epoch: int) -> LogEnd:
        start = self.start.end_offset
        known = [
            (entry_epoch, offset)
            for offset, (entry_epoch, _) in enumerate(self.entries)
            if entry_epoch <= epoch and offset >= start
        ]
        if known:
            return LogEnd(known[-1][0], known[-1][1] + 1)
        return self.start if start > 0 else LogEnd(-1, -1)

    def history(self) -> VoterHistory:
        found = VoterHistory(VoterSet())
        found.restart(0, SnapshotHead(0, 1, self.voters))
        for offset, (_epoch, value) in enumerate(self.entries):
            if value.startswith("voters "):
                found.appended(offset, voter_set(*map(int, value.split()[1:])))
        return found

    def read(self, offset: int, count: int) -> list[Entry]:
        assert offset >= self.start.end_offset, "it was cut off"
        return self.entries[offset : offset + count]

    def take_snapshot(self, end_offset: int) -> None:
        if end_offset > (self.snapshots[-1].end_offset if self.snapshots else 0):
            self.snapshots.append(LogEnd(self.entries[end_offset - 1][0], end_offset))

    def clean(self) -> None:
        """All but the latest snapshot, and what it holds, goes."""
        if self.snapshots:
            self.snapshots = self.snapshots[-1:]
            self.start = self.snapshots[0]

    def install(self, snapshot: LogEnd, entries: list[Entry]) -> None:
        assert len(entries) == snapshot.end_offset
        self.entries = list(entries)
        self.synced = len(entries)
        self.start = snapshot
        self.snapshots = [snapshot]


def key_of(node_id: int) -> ReplicaKey:
    return ReplicaKey(node_id, bytes([node_id]) * 16)


def voter_set(*node_ids: int) -> VoterSet:
    return VoterSet(Voter(key_of(node_id)) for node_id in node_ids)


class Node:
    def __init__(self, node_id: int, voters: VoterSet, cluster: "RaftCluster") -> None:
        self.id = node_id
        self.cluster = cluster
        self.log = ListLog(voters)
        self.durable = Election()
        self.is_up = False
        self.generation = 0  # deliveries for an earlier life are dropped
        self.partial: tuple[int, LogEnd, list[Entry]] | None = None  # the epoch, and what came of the snapshot yet
        self.start()

    def start(self) -> None:
        self.is_up = True
        self.generation += 1
        self.partial = None
        del self.log.entries[self.log.synced :]
        self.raft = Raft(
            replica=key_of(self.id),
            voters=self.log.history().voters,
            election=self.durable,
            log=self.log,
            timeouts=TIMEOUTS,
            random=self.cluster.random,
            now_ms=self.cluster.now_ms,
        )
        self.perform(self.raft.tick(self.cluster.now_ms))
        self.cluster.later(FETCH_INTERVAL_MS, self, self.fetch)

    def crash(self) -> None:
        self.is_up = False

    def perform(self, output: Output) -> None:
        if output.persist is not None:
            self.durable = output.persist
        if output.truncate_to is not None:
            del self.log.entries[output.truncate_to :]
            self.log.synced = min(self.log.synced, output.truncate_to)
            self.heed_voters()
        if output.lead:
            self.cluster.leaders.setdefault(self.raft.epoch, self.id)
            assert self.cluster.leaders[self.raft.epoch] == self.id, f"two leaders in epoch {self.raft.epoch}"
            self.append("leader")
        if output.high_watermark is not None:
            self.cluster.committed(self.log.entries[: output.high_watermark])
            if self.log.history().offset < output.high_watermark:
                self.perform(self.raft.voters_committed(self.cluster.now_ms))
        for send in output.send:
            self.cluster.send(self, send)

    def append(self, value: str) -> None:
        """As the leader: into the log, and later onto the platter."""
        self.log.entries.append((self.raft.epoch, value))
        self.cluster.later(self.cluster.random.uniform(0, 10), self, self.sync)

    def heed_voters(self) -> None:
        voters = self.log.history().voters
        if voters != self.raft.voters:
            self.perform(self.raft.voters_changed(voters, self.cluster.now_ms))

    def change_voters(self, node_id: int) -> Refusal | None:
        """As the leader: out with a voter, in with another node."""
        key, history = key_of(node_id), self.log.history()
        if history.voters.is_voter(key):
            changed = membership.remove(self.raft, history, key)
        else:
            changed = membership.add(self.raft, history, Voter(key), self.cluster.now_ms)
        if isinstance(changed, Refusal):
            return changed
        self.append("voters " + " ".join(map(str, changed.ids)))
        self.heed_voters()
        return None

    def sync(self) -> None:
        self.log.synced = len(self.log.entries)
        self.perform(self.raft.synced(self.log.synced, self.cluster.now_ms))

    def fetch(self) -> None:
        self.cluster.later(FETCH_INTERVAL_MS, self, self.fetch)
        position = self.raft.fetch_position()
        if position is not None:
            others = [node_id for node_id in self.cluster.nodes if node_id != self.id]
            target = self.raft.leader_id if self.raft.leader_id >= 0 else self.cluster.random.choice(others)
            snapshot = self.raft.fetching
            if snapshot is not None:
                self.fetch_snapshot(target, snapshot)
            else:
                self.cluster.deliver(self, target, lambda node: node.serve_fetch(position))

    def fetch_snapshot(self, target: int, snapshot: LogEnd) -> None:
        if self.partial is None or self.partial[:2] != (self.raft.epoch, snapshot):
            self.partial = (self.raft.epoch, snapshot, [])
        asked = SnapshotPosition(key_of(self.id), self.raft.epoch, snapshot, len(self.partial[2]))
        self.cluster.deliver(self, target, lambda node: node.serve_fetch_snapshot(asked))

    def serve_fetch_snapshot(self, asked: SnapshotPosition) -> None:
        verdict, output = self.raft.receive_fetch_snapshot(asked, self.cluster.now_ms)
        self.perform(output)
        if verdict.error == ErrorCode.NONE and asked.snapshot not in self.log.snapshots:
            verdict = verdict._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND)
        part: list[Entry] = []
        if verdict.error == ErrorCode.NONE:
            end_offset = asked.snapshot.end_offset
            part = self.log.entries[:end_offset][asked.position : asked.position + PART]
            verdict = verdict._replace(size_bytes=end_offset, position=asked.position)

        def answer(node: Node) -> None:
            node.perform(node.raft.receive_fetch_snapshot_response(self.id, verdict, node.cluster.now_ms))
            if node.raft.fetching == asked.snapshot and node.raft.epoch == verdict.epoch:
                node.take_part(asked, part)

        self.cluster.deliver(self, asked.replica.id, answer)

    def take_part(self, asked: SnapshotPosition, part: list[Entry]) -> None:
        if self.partial is None or self.partial[:2] != (asked.epoch, asked.snapshot):
            return
        if len(self.partial[2]) == asked.position:
            self.partial[2].extend(part)
        if len(self.partial[2]) == asked.snapshot.end_offset:
            self.log.install(asked.snapshot, self.partial[2])
            self.partial = None
            self.heed_voters()
            self.cluster.installed += 1
            self.perform(self.raft.snapshot_installed())

    def serve_fetch(self, position: FetchPosition) -> None:
        verdict, output = self.raft.receive_fetch(position, self.cluster.now_ms)
        self.perform(output)
        entries: list[Entry] = []
        plain = verdict.error == ErrorCode.NONE and verdict.diverging is None and verdict.snapshot is None
        if plain:
            entries = self.log.read(position.offset, 3)

        def answer(node: Node) -> None:
            if node.raft.fetch_position() == position:
                node.perform(node.raft.receive_fetch_response(self.id, verdict, node.cluster.now_ms))
                if plain:
                    node.take(entries, verdict.high_watermark, verdict.epoch)

        self.cluster.deliver(self, position.replica.id, answer)

    def take(self, entries: list[Entry], high_watermark: int, epoch: int) -> None:
        if self.raft.role is Role.FOLLOWER and self.raft.epoch == epoch:
            self.log.entries.extend(entries)
            self.log.synced = len(self.log.entries)
            self.heed_voters()
            self.perform(self.raft.appended(high_watermark))


class RaftCluster:
    """Nodes 1 to `size` vote, as many `observers` after them follow."""

    def __init__(self, size: int, seed: int, *, observers: int = 0, loss: float = 0.0, delay_ms_max: float = 5) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.loss = loss
        self.delay_ms_max = delay_ms_max
        self.cut: set[frozenset[int]] = set()
        self.leaders: dict[int, int] = {}  # by epoch
        self.history: list[Entry] = []  # all that was ever committed
        self.installed = 0  # snapshots that were copied from a leader
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        voters = voter_set(*range(1, size + 1))
        self.nodes: dict[int, Node] = {}
        for node_id in range(1, size + observers + 1):
            self.nodes[node_id] = Node(node_id, voters, self)

    def committed(self, entries: list[Entry]) -> None:
        """Committed is for ever: every replica's committed log is a prefix of the longest one."""
        shared = min(len(entries), len(self.history))
        assert entries[:shared] == self.history[:shared], "committed entries differ"
        if len(entries) > len(self.history):
            self.history = list(entries)

    def later(self, delay_ms: float, node: Node, action: Callable[[], None]) -> None:
        generation = node.generation

        def guarded() -> None:
            if node.is_up and node.generation == generation:
                action()

        self._number += 1
        heappush(self._events, (self.now_ms + delay_ms, self._number, guarded))

    def deliver(self, source: Node, target_id: int, action: Callable[[Node], None]) -> None:
        target = self.nodes[target_id]
        if self.random.random() < self.loss or frozenset((source.id, target_id)) in self.cut:
            return
        self.later(self.random.uniform(0, self.delay_ms_max), target, lambda: action(target))

    def send(self, source: Node, send: Send) -> None:
        message = send.message

        def receive(node: Node) -> None:
            if isinstance(message, VoteRequest):
                response, output = node.raft.receive_vote(message, self.now_ms)
                node.perform(output)
                self.deliver(
                    node,
                    source.id,
                    lambda back: back.perform(
                        back.raft.receive_vote_response(node.id, response, message.pre_vote, self.now_ms)
                    ),
                )
            elif isinstance(message, BeginEpochRequest):
                node.perform(node.raft.receive_begin_epoch(message, self.now_ms)[1])
            else:
                assert isinstance(message, EndEpochRequest)
                node.perform(node.raft.receive_end_epoch(message, self.now_ms)[1])

        self.deliver(source, send.to, receive)

    def run(self, until_ms: float) -> None:
        while True:
            deadlines = [(node.raft.next_deadline_ms(), node.id) for node in self.nodes.values() if node.is_up]
            deadline_ms, node_id = min(deadlines, default=(float("inf"), 0))
            event_ms = self._events[0][0] if self._events else float("inf")
            next_ms = min(deadline_ms, event_ms)
            if next_ms > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = max(self.now_ms, next_ms)
            if event_ms <= deadline_ms:
                heappop(self._events)[2]()
            else:
                node = self.nodes[node_id]
                node.perform(node.raft.tick(self.now_ms))

    def leader(self) -> Node | None:
        """The one of the latest epoch, if it is up and leads."""
        leading = [node for node in self.nodes.values() if node.is_up and node.raft.is_leader]
        return max(leading, key=lambda node: node.raft.epoch, default=None)

    def elect(self, within_ms: float = 5000) -> Node:
        end_ms = self.now_ms + within_ms
        while self.now_ms < end_ms:
            self.run(self.now_ms + 10)
            leader = self.leader()
            if leader is not None and leader.raft.high_watermark > 0:
                return leader
        raise AssertionError(f"no leader within {within_ms} ms")
