"""Consumer groups under random members of both protocols, lost answers, silence, restarts and failing disks.

Held at every moment: a partition has one owner at most; a member that is still one owns nothing that the coordinator
does not know of; what another broker replays is what this one has; epochs never fall.
At the end, once everybody is well again: the group is stable, and everything is assigned.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from consumer_script import (
    ScriptTopics,
    assert_one_owner,
    assert_same_state,
    decode_assignment,
    subscription,
)

from barnabas.errors import ErrorCode
from barnabas.groups.consumer import ConsumerGroup
from barnabas.groups.consumer_settings import ConsumerSettings, MigrationPolicy
from barnabas.groups.group import Surroundings
from barnabas.groups.outcome import Client, Moment, Outcome, Pending
from barnabas.groups.records import decode, encode
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.sync_group import SyncGroupRequest

GROUP = "g"
SESSION_MS = 45_000
REBALANCE_MS = 30_000
MEMBERS = 5
NUMBERS = st.integers(0, MEMBERS - 1)
SUBSCRIPTIONS = st.sampled_from(["t", "u", "t,u", "t,u,later", "~t|u", "~.*", "u~la.*"])  # names ~ expression
Owned = dict[str, set[int]]


class Member:
    """What one client knows. The first is static; the last two speak the classic protocol, cooperatively."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_classic = number >= MEMBERS - 2
        self.instance_id = "instance" if number == 0 else None
        self.lives = 0
        self.subscription = "t"
        self.forget()

    def forget(self) -> None:
        """A new process."""
        self.lives += 1
        self.member_id = "" if self.is_classic else f"m{self.number}-{self.lives}"
        self.epoch = 0
        self.owned: Owned = {}  # as the client believes, and it alone
        self.told: Owned = {}  # what it shall own; it may still be busy with the rest
        self.slow = False
        self.must_join = True
        self.asleep = False

    @property
    def topics(self) -> list[str]:
        names = self.subscription.partition("~")[0]
        if self.is_classic:
            return names.split(",") if names else ["t"]
        return names.split(",") if names else []

    @property
    def expression(self) -> str:
        return "" if self.is_classic else self.subscription.partition("~")[2]

    def fenced(self) -> None:
        self.owned, self.told, self.epoch, self.must_join = {}, {}, 0, True
        if self.is_classic:
            self.member_id = ""

    def keep(self, told: dict[str, list[int]]) -> None:
        """Takes what it was told of, and gives up the rest: at once, or when it has finished with it."""
        self.told = {name: set(partitions) for name, partitions in told.items()}
        if self.slow:
            self.owned = {
                name: self.owned.get(name, set()) | self.told.get(name, set()) for name in {*self.owned, *self.told}
            }
        else:
            self.finish()

    def finish(self) -> None:
        self.owned = {name: set(partitions) for name, partitions in self.told.items()}


class ConsumerGroups(RuleBasedStateMachine):
    @initialize(interval_ms=st.sampled_from([0, 1_000]), assignor=st.sampled_from(["uniform", "range"]))
    def begin(self, interval_ms: int, assignor: str) -> None:
        self.random = random.Random(3)
        self.topics = ScriptTopics()
        self.topics.put("t", 4)
        self.topics.put("u", 3)
        self.consumer = ConsumerSettings(
            assignment_interval_ms=interval_ms, assignors=(assignor,), migration=MigrationPolicy.UPGRADE
        )
        self.now = Moment(1_000_000_000_000, 0)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.members = [Member(number) for number in range(MEMBERS)]
        self.epochs: tuple[int, int] = (0, 0)
        self.failing = False
        self.shard = self.empty_shard()
        self.shard.loaded(self.now)

    def empty_shard(self) -> GroupShard:
        surroundings = Surroundings(settings=GroupSettings(), topics=self.topics, random=self.random)
        surroundings.consumer = self.consumer
        return GroupShard(surroundings)

    def replayed(self) -> GroupShard:
        shard = self.empty_shard()
        for offset, (key, value) in enumerate(self.log):
            record = decode(key, value)
            assert record is not None
            shard.apply(record, offset)
        return shard

    # Deciding

    def ask(self, decide: Any) -> Any:
        """The answer; None where it could not be written."""
        outcome = decide(self.shard, Pending())
        assert not outcome.again, "nothing here is a classic group"
        if not self.perform(outcome):
            return None
        ((_pending, response),) = outcome.answers
        return response

    def perform(self, outcome: Outcome) -> bool:
        if outcome.records and self.failing:
            self.failing = False
            self.perform(self.shard.append_failed(outcome, ErrorCode.NOT_ENOUGH_REPLICAS, self.now))
            return False
        for record in outcome.records:
            self.log.append(encode(record))
            self.shard.apply(record, len(self.log) - 1)
        return True

    def pass_time(self, delay_ms: int) -> None:
        end_ms = self.now.monotonic_ms + delay_ms
        while (due_ms := self.shard.next_deadline_ms()) is not None and due_ms <= end_ms:
            self.now = Moment(
                1_000_000_000_000 + max(due_ms, self.now.monotonic_ms), max(due_ms, self.now.monotonic_ms)
            )
            outcome = self.shard.tick(self.now)
            if outcome is not None:
                self.perform(outcome)
        self.now = Moment(1_000_000_000_000 + end_ms, end_ms)

    # Members

    def beat(self, member: Member, *, answered: bool = True) -> None:
        if member.is_classic:
            self.classic_turn(member, answered=answered)
            return
        joins = member.must_join
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member.member_id,
            member_epoch=0 if joins else member.epoch,
            instance_id=member.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=member.topics,
            subscribed_topic_regex=member.expression,
            topic_partitions=[
                RequestTopicPartitions(topic_id=self.topic_id(name), partitions=sorted(partitions))
                for name, partitions in member.owned.items()
                if partitions
            ],
        )
        caller = Client(1, f"client{member.number}", "/127.0.0.1")
        response = self.ask(lambda shard, pending: shard.consumer_heartbeat(request, caller, pending, self.now))
        if response is None or not answered:
            return
        if response.error_code:
            if response.error_code != ErrorCode.UNRELEASED_INSTANCE_ID:
                assert response.error_code in (
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    ErrorCode.FENCED_INSTANCE_ID,
                ), response
                member.fenced()
            return
        member.must_join = False
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.keep(
                {self.topic_name(each.topic_id): each.partitions for each in response.assignment.topic_partitions}
            )

    def classic_turn(self, member: Member, *, answered: bool) -> None:
        if not member.must_join:
            request = HeartbeatRequest(group_id=GROUP, generation_id=member.epoch, member_id=member.member_id)
            caller = Client(4, "", "/127.0.0.1")
            response = self.ask(lambda shard, pending: shard.heartbeat(request, caller, pending, self.now))
            if response is None or not answered or not response.error_code:
                return
            member.must_join = True
            if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                member.fenced()
            return
        if GROUP not in self.shard.groups or self.shard.groups[GROUP].is_empty:
            return  # it would make a classic group, which is another story
        self.join(member, answered=answered)

    def join(self, member: Member, *, answered: bool) -> None:
        owned = {name: sorted(partitions) for name, partitions in member.owned.items()}
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="c", metadata=subscription(member.topics, owned))],
        )
        caller = Client(9, f"client{member.number}", "/127.0.0.1")
        joined = self.ask(lambda shard, pending: shard.join(request, caller, pending, self.now))
        if joined is None or not answered:
            return
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = joined.member_id
            return
        assert joined.error_code == 0, joined
        member.member_id, member.epoch = joined.member_id, joined.generation_id
        sync = SyncGroupRequest(
            group_id=GROUP,
            generation_id=member.epoch,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="c",
        )
        synced = self.ask(lambda shard, pending: shard.sync(sync, caller, pending, self.now))
        if synced is None or synced.error_code:
            return
        told = decode_assignment(synced.assignment)
        gave_up = any(partitions - set(told.get(name, ())) for name, partitions in member.owned.items())
        member.keep(told)
        member.must_join = gave_up

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.by_name(name)
        return bytes(16) if topic is None else topic.id

    def topic_name(self, topic_id: bytes) -> str:
        topic = self.topics.by_id(topic_id)
        return "gone" if topic is None else topic.name

    # What may happen

    @rule(number=NUMBERS, answered=st.booleans() | st.just(True))
    def member_beats(self, number: int, answered: bool) -> None:
        if not self.members[number].asleep:
            self.beat(self.members[number], answered=answered)

    @rule()
    def everyone_beats(self) -> None:
        for member in self.members:
            if not member.asleep:
                self.beat(member)

    @rule(number=NUMBERS, wanted=SUBSCRIPTIONS)
    def member_changes_its_mind(self, number: int, wanted: str) -> None:
        self.members[number].subscription = wanted
        self.members[number].must_join = self.members[number].must_join or self.members[number].is_classic

    @rule(number=NUMBERS)
    def member_crashes(self, number: int) -> None:
        self.members[number].forget()

    @rule(number=NUMBERS)
    def member_leaves(self, number: int) -> None:
        member = self.members[number]
        if not member.is_classic and not member.must_join:
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member.member_id,
                member_epoch=-2 if member.instance_id else -1,
                instance_id=member.instance_id,
            )
            caller = Client(1, "", "")
            self.ask(lambda shard, pending: shard.consumer_heartbeat(request, caller, pending, self.now))
            member.forget()

    @rule(number=NUMBERS, slow=st.booleans())
    def member_takes_its_time(self, number: int, slow: bool) -> None:
        member = self.members[number]
        if not member.is_classic:
            member.slow = slow
            member.finish()

    @rule(number=NUMBERS)
    def member_falls_asleep(self, number: int) -> None:
        self.members[number].asleep = True

    @rule(number=NUMBERS)
    def member_wakes_up(self, number: int) -> None:
        self.members[number].asleep = False

    @rule(delay_ms=st.sampled_from([0, 500, 1_000, 5_000, 12_000, 50_000]))
    def time_passes(self, delay_ms: int) -> None:
        self.pass_time(delay_ms)

    @rule(name=st.sampled_from(["t", "u", "later"]), count=st.integers(1, 7))
    def topic_grows(self, name: str, count: int) -> None:
        known = self.topics.by_name(name)
        if known is None or known.partition_count < count:
            self.topics.put(name, count)
            self.shard.topics_changed([name], names_changed=known is None, now=self.now)

    @rule()
    def topic_goes(self) -> None:
        if self.topics.by_name("later") is not None:
            self.topics.put("later", 0)
            self.shard.topics_changed(["later"], names_changed=True, now=self.now)

    @rule()
    def disk_fails_once(self) -> None:
        self.failing = True

    @rule()
    def coordinator_moves(self) -> None:
        self.shard.unload()
        self.shard = self.replayed()
        for outcome in self.shard.loaded(self.now):
            self.perform(outcome)

    # What always holds

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.shard.groups.get(GROUP)
        assert group is None or isinstance(group, ConsumerGroup)
        return group

    @invariant()
    def one_owner(self) -> None:
        group = self.group
        if group is None:
            return
        assert_one_owner(group)
        for member in self.members:
            known = group.state.members.get(member.member_id)
            if known is None:
                continue  # fenced: it does not know yet, or it is just joining
            for name, partitions in member.owned.items():
                topic = self.topics.by_name(name)
                if topic is not None:
                    granted = {*known.assigned.get(topic.id, ()), *known.revoking.get(topic.id, ())}
                    assert partitions <= granted, (member.number, name, partitions, granted)

    @invariant()
    def a_replay_gives_the_same(self) -> None:
        group = self.group
        if group is not None:
            other = self.replayed().groups[GROUP]
            assert isinstance(other, ConsumerGroup)
            assert_same_state(other, group)

    @invariant()
    def epochs_never_fall(self) -> None:
        group = self.group
        if group is not None:
            epochs = (group.state.group_epoch, group.state.assignment_epoch)
            assert epochs >= self.epochs
            assert epochs[1] <= epochs[0]
            self.epochs = epochs

    def teardown(self) -> None:
        if not hasattr(self, "shard"):
            return
        self.failing = False
        for member in self.members:
            member.asleep = member.slow = False
            member.finish()
        for _ in range(40):
            self.pass_time(2_000)
            for member in self.members:
                self.beat(member)
        group = self.group
        assert group is not None
        assert group.state_name == "Stable", {each: vars(each) for each in self.members}
        self.check_everything_is_assigned(group)

    def check_everything_is_assigned(self, group: ConsumerGroup) -> None:
        wanted: set[tuple[str, int]] = set()
        owned: list[tuple[str, int]] = []
        for member in self.members:
            known = group.state.members[member.member_id]
            names = group.state.topics_of(known)
            for name in names:
                topic = self.topics.by_name(name)
                wanted |= set() if topic is None else {(name, each) for each in range(topic.partition_count)}
            mine = [(name, each) for name, partitions in member.owned.items() for each in partitions]
            assert {name for name, _ in mine} <= names
            owned += mine
        assert len(owned) == len(set(owned))
        assert set(owned) == wanted


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
