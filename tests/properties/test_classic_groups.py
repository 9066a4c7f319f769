"""Classic groups under random members, silence, restarts and failing disks.

Held at every moment: a partition has at most one owner in a generation; an acknowledged commit is what everyone reads,
also after another broker has taken over; nobody commits for a generation older than one that others already work in.
At the end, once everybody is silent: everyone who asked has had an answer, and the group is empty.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.errors import ErrorCode
from barnabas.groups.classic import ClassicGroup
from barnabas.groups.classic_state import EMPTY, STABLE
from barnabas.groups.group import Surroundings
from barnabas.groups.outcome import Client, Moment, Outcome, Pending
from barnabas.groups.records import decode, encode
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import NoTopics
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
PARTITIONS = 6
CALLER = Client(9, "client", "/127.0.0.1")
SESSION_MS = 6_000
REBALANCE_MS = 8_000
QUIET_MS = 600_000  # longer than anything waits for
CLIENTS = 5
STEPS = 300
STEPS_PER_REPLAY = 10


class Asked(Pending):
    __slots__ = ("client", "what")

    def __init__(self, client: Member, what: str) -> None:
        self.client = client
        self.what = what


class Member:
    """What one client knows. The first two are static: when they crash, their successors are known."""

    def __init__(self, number: int) -> None:
        self.instance_id = f"instance{number}" if number < 2 else None
        self.protocols = ["range", "sticky"] if number % 2 else ["sticky", "range"]
        self.member_id = ""
        self.generation = -1
        self.leads: list[str] = []  # whom it must assign to, where it leads
        self.must_join = True
        self.must_sync = False


class World:
    """Clients, time, a log and the shard, all moved by one seed."""

    def __init__(self, seed: int, *, initial_delay_ms: int, faults: float) -> None:
        self.random = random.Random(seed)
        self.faults = faults  # how much goes wrong: 0 nothing, 1 a lot
        self.settings = GroupSettings(initial_rebalance_delay_ms=initial_delay_ms)
        self.now = Moment(1_000_000, 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.members = [Member(number) for number in range(CLIENTS)]
        self.zombies: list[Member] = []  # processes that somebody else has taken the place of, and that wake up again
        self.unanswered: list[Asked] = []
        self.owners: dict[tuple[int, int], str] = {}  # of each partition in each generation
        self.newest_generation = 0  # in which somebody has his part
        self.committed: dict[int, int] = {}  # acknowledged, by partition
        self.appends_fail = 0
        self.shard = self._new_shard()
        self.shard.loaded(self.now)

    def run(self, steps: int) -> None:
        for step in range(steps):
            self.step()
            self.check_members()
            if step % STEPS_PER_REPLAY == 0:
                self.check_committed()
        self.appends_fail = 0
        self.time_passes(QUIET_MS)
        assert self.unanswered == []
        group = self.shard.groups.get(GROUP)
        assert group is None or group.is_empty
        self.check_committed()

    def step(self) -> None:
        """Mostly, a client does what comes next; now and then something goes wrong."""
        number = self.random.randrange(CLIENTS)
        if self.random.random() >= self.faults * 0.3:
            self.work(number)
            if self.random.random() < 0.2:
                self.commit(self.members[number])
            if self.random.random() < 0.3:
                self.time_passes(self.random.choice([0, 10, 500, 3_000]))
            return
        fault = self.random.choice(
            [self.leave, self.rejoin, self.crash, self.crash, self.zombie_wakes_up, self.zombie_wakes_up]
        )
        fault(number)
        if self.random.random() < 0.1:
            self.random.choice([self.coordinator_moves, self.disk_fails, self.silence])()

    def _new_shard(self) -> GroupShard:
        return GroupShard(
            Surroundings(settings=self.settings, topics=NoTopics(), random=random.Random(self.random.random()))
        )

    # The shell

    def submit(self, asked: Asked, decide: Any) -> None:
        self.unanswered.append(asked)
        outcome = decide()
        error = self.perform(outcome)
        if outcome.again:
            if error == ErrorCode.NONE:
                self.perform(decide())
            else:
                self.answered(asked, error)

    def perform(self, outcome: Outcome) -> ErrorCode:
        if outcome.records and self.appends_fail:
            self.appends_fail -= 1
            for asked, _response in outcome.answers:
                self.answered(asked, ErrorCode.NOT_COORDINATOR)
            self.perform(self.shard.append_failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, self.now))
            return ErrorCode.KAFKA_STORAGE_ERROR
        for record in outcome.records:
            self.log.append(encode(record))
            self.shard.apply(record, len(self.log) - 1)
        for asked, response in outcome.answers:
            self.answered(asked, response)
        if outcome.then is not None:
            self.perform(outcome.then(self.shard, self.now))
        return ErrorCode.NONE

    def answered(self, asked: Pending, response: Any) -> None:
        assert isinstance(asked, Asked)
        self.unanswered.remove(asked)  # ValueError: answered twice
        if isinstance(response, ErrorCode):
            return
        client = asked.client
        if asked.what == "join":
            self.joined(client, response)
        elif asked.what == "sync" and response.error_code == 0:
            self.synced(client, response.assignment)
        elif asked.what in ("sync", "heartbeat"):
            client.must_join = client.must_join or response.error_code != 0
            if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""

    def joined(self, client: Member, response: Any) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = response.member_id
        elif response.error_code == 0:
            client.member_id = response.member_id
            client.generation = response.generation_id
            client.must_join, client.must_sync = False, True
            leads = response.leader == response.member_id and not response.skip_assignment
            client.leads = [each.member_id for each in response.members] if leads else []
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation = "", -1

    def synced(self, client: Member, assignment: bytes) -> None:
        client.must_sync = False
        self.newest_generation = max(self.newest_generation, client.generation)
        for partition in assignment:
            owner = self.owners.setdefault((client.generation, partition), client.member_id)
            # A static member keeps its part under another id.
            assert owner == client.member_id or (client.instance_id and owner.startswith(client.instance_id))

    # What clients do

    def work(self, number: int) -> None:
        """The next thing that a client does which goes by the rules."""
        client = self.members[number]
        if any(asked.client is client for asked in self.unanswered):
            return
        if client.must_join:
            self.join(client, self.random.choice([3, 5, 8, 9]))
        elif client.must_sync:
            self.sync(client)
        else:
            self.heartbeat(client)

    def join(self, client: Member, version: int) -> None:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=b"\x00\x00") for name in client.protocols],
        )
        caller = CALLER._replace(api_version=version if client.instance_id is None else max(version, 5))
        asked = Asked(client, "join")
        self.submit(asked, lambda: self.shard.join(request, caller, asked, self.now))

    def sync(self, client: Member) -> None:
        parts: dict[str, list[int]] = {member_id: [] for member_id in client.leads}
        for partition in range(PARTITIONS if client.leads else 0):
            parts[self.random.choice(client.leads)].append(partition)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(partitions))
                for member_id, partitions in parts.items()
            ],
        )
        asked = Asked(client, "sync")
        self.submit(asked, lambda: self.shard.sync(request, CALLER, asked, self.now))

    def heartbeat(self, client: Member) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
        )
        asked = Asked(client, "heartbeat")
        self.submit(asked, lambda: self.shard.heartbeat(request, CALLER, asked, self.now))

    def rejoin(self, number: int) -> None:
        """As a client does that has changed its subscription."""
        self.members[number].must_join = True

    def leave(self, number: int) -> None:
        client = self.members[number]
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
        request = LeaveGroupRequest(group_id=GROUP, members=[identity])
        asked = Asked(client, "leave")
        self.submit(asked, lambda: self.shard.leave(request, CALLER, asked, self.now))
        client.must_join = True

    def crash(self, number: int) -> None:
        """Its successor knows nothing. It was perhaps only asleep."""
        self.zombies.append(self.members[number])
        self.members[number] = Member(number)

    def zombie_wakes_up(self, _number: int) -> None:
        if not self.zombies:
            return
        zombie = self.random.choice(self.zombies)
        if zombie.generation >= 0 and not any(asked.client is zombie for asked in self.unanswered):
            self.commit(zombie)
            self.heartbeat(zombie)
            self.sync(zombie)

    def commit(self, client: Member) -> None:
        partition = self.random.randrange(PARTITIONS)
        offset = len(self.log) * 10 + partition
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
                )
            ],
        )
        asked = Asked(client, "commit")
        outcome = self.shard.offset_commit(request, CALLER, asked, self.now)
        self.unanswered.append(asked)
        if self.perform(outcome) == ErrorCode.NONE and outcome.records:
            if client.generation >= 0:
                assert client.generation >= self.newest_generation
            self.committed[partition] = offset

    # What happens to them

    def time_passes(self, delay_ms: int) -> None:
        end_ms = self.now.monotonic_ms + delay_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now = Moment(1_000_000 + due_ms, max(due_ms, self.now.monotonic_ms))
            outcome = self.shard.tick(self.now)
            if outcome is not None:
                self.perform(outcome)
        self.now = Moment(1_000_000 + end_ms, end_ms)

    def coordinator_moves(self) -> None:
        for asked in self.shard.unload():
            self.answered(asked, ErrorCode.NOT_COORDINATOR)
        assert self.unanswered == []
        self.shard = self.replayed()
        for outcome in self.shard.loaded(self.now):
            self.perform(outcome)

    def disk_fails(self) -> None:
        self.appends_fail = 1

    def silence(self) -> None:
        self.time_passes(self.random.choice([3_000, 6_001, 20_000]))

    def replayed(self) -> GroupShard:
        shard = self._new_shard()
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            shard.apply(record, offset)
        return shard

    # What holds

    def check_committed(self) -> None:
        request = OffsetFetchRequestGroup(
            group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=list(range(PARTITIONS)))]
        )
        for shard in (self.shard, self.replayed()):
            (answer,) = shard.offset_fetch(request, Asked(self.members[0], "fetch"), require_stable=True).answers
            response: Any = answer.response
            found = {each.partition_index: each.committed_offset for each in response.topics[0].partitions}
            assert found == {partition: self.committed.get(partition, -1) for partition in range(PARTITIONS)}

    def check_members(self) -> None:
        group = self.shard.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        members = group.members
        assert members.joined_count == sum(member.joining is not None for member in members)
        assert (members.leader in members) == bool(len(members))
        assert all(member_id in members for member_id in members.unsynced)
        assert (group.state is EMPTY) <= (len(members) == 0)
        assert group.generation >= self.newest_generation
        if group.state is STABLE:
            assert all(member.syncing is None for member in members)
        waiting = [asked for asked in self.unanswered if asked.what in ("join", "sync")]
        assert len(waiting) == len(self.unanswered)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32), initial_delay_ms=st.sampled_from([0, 3_000]), faults=st.sampled_from([0.1, 0.4, 1.0])
)
def test_classic_groups(seed: int, initial_delay_ms: int, faults: float) -> None:
    World(seed, initial_delay_ms=initial_delay_ms, faults=faults).run(STEPS)


def test_the_worlds_get_somewhere() -> None:
    """Otherwise what is held above would mean nothing."""
    world = World(1, initial_delay_ms=0, faults=0.2)
    world.run(STEPS)
    assert world.newest_generation > 5
    assert len(world.committed) == PARTITIONS
    assert len({owner for (generation, _partition), owner in world.owners.items()}) > 5
