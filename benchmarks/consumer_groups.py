"""What consumer groups cost the coordinator: `python benchmarks/consumer_groups.py`.

One shard without its log: every heartbeat of every member of a group, from the first join until all have what they
shall have; then a quiet heartbeat, a member more, an assignor by itself, a search for the topics of an expression, and
the memory of many groups. Records are encoded, as they are for the log. Times are those of the processor.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable

from barnabas.groups.assignors import ASSIGNORS
from barnabas.groups.assignors.specification import NOTHING, GroupSpecification, MemberSpecification
from barnabas.groups.consumer_settings import ConsumerSettings
from barnabas.groups.expression_search import ExpressionSearch
from barnabas.groups.group import Surroundings
from barnabas.groups.outcome import Client, Moment, Outcome, Pending
from barnabas.groups.records import encode
from barnabas.groups.settings import GroupSettings
from barnabas.groups.shard import GroupShard
from barnabas.groups.topics import Topic
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions

CALLER = Client(1, "benchmark", "/127.0.0.1")
NOW = Moment(1_000_000_000_000, 0)


class SomeTopics:
    version = 1

    def __init__(self, count: int, partition_count: int) -> None:
        topics = [Topic(f"topic-{number:04}", number.to_bytes(16, "big"), partition_count) for number in range(count)]
        self._by_name = {topic.name: topic for topic in topics}
        self._by_id = {topic.id: topic for topic in topics}

    def by_name(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def names(self) -> list[str]:
        return list(self._by_name)

    def racks(self, topic_id: bytes, partition: int) -> tuple[str, ...]:
        return ()


class Group:
    """A group and its members, which do at once what they are told."""

    def __init__(self, shard: GroupShard, group_id: str, topics: list[str]) -> None:
        self.shard = shard
        self.group_id = group_id
        self.topics = topics
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, list[RequestTopicPartitions]] = {}
        self.heartbeats = 0
        self.records = 0

    def beat(self, member_id: str) -> bool:
        """Whether the member was told something new."""
        epoch = self.epochs.get(member_id, 0)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else 60_000,
            subscribed_topic_names=None if epoch else self.topics,
            topic_partitions=self.owned.get(member_id, []),
        )
        outcome: Outcome = self.shard.consumer_heartbeat(request, CALLER, Pending(), NOW)
        for record in outcome.records:
            encode(record)
            self.shard.apply(record, 0)
        self.heartbeats += 1
        self.records += len(outcome.records)
        ((_pending, response),) = outcome.answers
        assert response.error_code == 0, response
        changed = self.epochs.get(member_id) != response.member_epoch or response.assignment is not None
        self.epochs[member_id] = response.member_epoch
        if response.assignment is not None:
            self.owned[member_id] = [
                RequestTopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in response.assignment.topic_partitions
            ]
        return changed

    def settle(self) -> None:
        told = True
        while told:
            told = sum(self.beat(member_id) for member_id in list(self.epochs)) > 0
        assert self.shard.groups[self.group_id].state_name == "Stable"


def new_shard(topics: SomeTopics) -> GroupShard:
    shard = GroupShard(Surroundings(settings=GroupSettings(), topics=topics, random=random.Random(1)))
    shard.surroundings.consumer = ConsumerSettings(assignment_interval_ms=0)
    return shard


def milliseconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1e3


def rebalances(member_count: int, topic_count: int, partition_count: int) -> None:
    topics = SomeTopics(topic_count, partition_count)
    group = Group(new_shard(topics), "g", topics.names())
    members = [f"member-{number:04}" for number in range(member_count)]

    def join() -> None:
        for member_id in members:
            group.beat(member_id)
        group.settle()

    joined_ms = milliseconds(join)
    size = f"{member_count} members, {topic_count * partition_count} partitions"
    print(f"{size}: all join one by one and settle: {joined_ms:.0f} ms, {group.heartbeats} heartbeats")
    quiet_ms = milliseconds(lambda: [group.beat(member_id) for member_id in members])
    print(f"{size}: a quiet heartbeat: {quiet_ms / member_count * 1e3:.0f} µs")

    def one_more() -> None:
        group.beat("one-more")
        group.settle()

    heartbeats = group.heartbeats
    settled_ms = milliseconds(one_more)
    print(f"{size}: one more joins, all settle: {settled_ms:.0f} ms, {group.heartbeats - heartbeats} heartbeats")


def assignors(member_count: int, partition_count: int) -> None:
    topic = bytes(16)
    members = {f"member-{number:04}": MemberSpecification(None, (topic,), NOTHING) for number in range(member_count)}
    group = GroupSpecification(members, {topic: partition_count})
    mixed = {
        member_id: member._replace(topics=(topic, bytes([1] * 16)) if number % 2 else (topic,))
        for number, (member_id, member) in enumerate(members.items())
    }
    different = GroupSpecification(mixed, {topic: partition_count // 2, bytes([1] * 16): partition_count // 2})
    for name, assign in ASSIGNORS.items():
        same_ms, mixed_ms = milliseconds(lambda a=assign: a(group)), milliseconds(lambda a=assign: a(different))
        size = f"{member_count} members, {partition_count} partitions"
        print(f"{name}, {size}: {same_ms:.1f} ms; with two kinds of subscription: {mixed_ms:.1f} ms")


def searches() -> None:
    names = [f"orders-{number}.eu_west-{number % 7}" for number in range(10_000)]
    for expression in ("orders-.*", r"orders-[0-9]+\.(eu|us)_.*-[0-3]", "(.*)(.*)(.*)x", "[a-z]*a[a-z]{200}"):
        search = ExpressionSearch([expression], names, 1)
        slices = []
        while True:
            began = time.process_time()
            done = search.run()
            slices.append((time.process_time() - began) * 1e3)
            if done:
                break
        total, longest = sum(slices), max(slices)
        print(
            f"10000 topics against {expression}: {total:.0f} ms in {len(slices)} slices, the longest {longest:.1f} ms"
        )


def memory(group_count: int) -> None:
    topics = SomeTopics(10, 10)
    shard = new_shard(topics)
    tracemalloc.start()
    for number in range(group_count):
        Group(shard, f"group-{number}", ["topic-0001"]).beat("member")
    used, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{group_count} groups of one member with 10 partitions: {used / group_count / 1024:.1f} KiB each")


if __name__ == "__main__":
    print(f"Python {sys.version.split()[0]}")
    rebalances(100, 10, 100)
    rebalances(500, 10, 100)
    assignors(100, 1_000)
    assignors(500, 10_000)
    searches()
    memory(1_000)
