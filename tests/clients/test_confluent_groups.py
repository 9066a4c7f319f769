"""Groups of librdkafka's consumers with the classic protocol: eager and cooperative, static, crashing, restarting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from broker_process import BrokerProcess, wait_until
from client_libraries import confluent_kafka as ck
from confluent_io import create_topic, deliver
from group_consumers import GroupConsumer, committed, shared, wait_shared

PARTITIONS = 6
EAGER = ["range", "roundrobin"]
STICKY = "cooperative-sticky"
SESSION_MS = 2_000  # below what a broker allows by default; the quick broker allows it


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[str]:
    """One that notices the silence of a member soon."""
    if "BARNABAS_TEST_BOOTSTRAP" in os.environ:
        pytest.skip("needs a broker of its own settings")
    with BrokerProcess(config={"group.min.session.timeout.ms": 100}) as broker:
        yield broker.address
        assert "Traceback" not in broker.errors(), broker.errors()[-8000:]


def fill(address: str, topic: str, count: int, first: int = 0, partitions: int = PARTITIONS) -> list[bytes]:
    values = [b"%06d" % number for number in range(first, first + count)]
    producer = ck.Producer({"bootstrap.servers": address, "linger.ms": 1})
    deliver(producer, topic, [{"value": value, "partition": n % partitions} for n, value in enumerate(values)])
    return values


def new_topic(address: str, name: str, partitions: int = PARTITIONS) -> str:
    create_topic(ck.admin.AdminClient({"bootstrap.servers": address}), name, partitions)
    return name


@pytest.fixture
def topic(served: str, topic_name: Callable[[], str]) -> str:
    return new_topic(served, topic_name())


# Reading together


@pytest.mark.parametrize("strategy", [*EAGER, STICKY])
def test_members_share_and_take_over(served: str, topic: str, strategy: str) -> None:
    settings = {"partition_assignment_strategy": strategy}
    values = fill(served, topic, 60)
    first = GroupConsumer(served, topic, topic, **settings)
    wait_until(lambda: sorted(first.values) == values, "one member reads everything")
    second = GroupConsumer(served, topic, topic, **settings)
    third = GroupConsumer(served, topic, topic, **settings)
    wait_shared([first, second, third], PARTITIONS)
    values += fill(served, topic, 60, first=60)
    wait_until(lambda: sorted(first.values + second.values + third.values) == values, "each reads its part, once")
    first.close()
    wait_shared([second, third], PARTITIONS)
    values += fill(served, topic, 60, first=120)
    wait_until(lambda: sorted(first.values + second.values + third.values) == values, "the others have taken over")
    second.close()
    third.close()
    assert committed(served, topic, topic, PARTITIONS) == [30] * PARTITIONS


def test_cooperative_rebalances_move_only_what_must_move(served: str, topic: str) -> None:
    settings = {"partition_assignment_strategy": STICKY}
    with GroupConsumer(served, topic, topic, **settings) as first:
        wait_shared([first], PARTITIONS)
        with GroupConsumer(served, topic, topic, **settings) as second:
            wait_shared([first, second], PARTITIONS)
            assert [len(each) for each in first.taken] == [3]
            with GroupConsumer(served, topic, topic, **settings) as third:
                wait_shared([first, second, third], PARTITIONS)
                assert [len(each) for each in first.taken] == [3, 1]
                assert [len(each) for each in second.taken if each] == [1]
                assert set().union(*third.given) == first.taken[-1] | second.taken[-1]
                kept_by_first, kept_by_second = frozenset(first.owned), frozenset(second.owned)
            wait_shared([first, second], PARTITIONS)
            assert kept_by_first <= first.owned
            assert kept_by_second <= second.owned
            assert [len(each) for each in first.taken] == [3, 1], "nobody gave anything up for one who left"


def test_a_group_continues_where_it_stopped(served: str, topic: str) -> None:
    values = fill(served, topic, 30)
    with GroupConsumer(served, topic, topic) as consumer:
        wait_until(lambda: sorted(consumer.values) == values, "everything is read")
    more = fill(served, topic, 30, first=30)
    with GroupConsumer(served, topic, topic) as consumer:
        wait_until(lambda: len(consumer.values) >= 30, "the rest is read")
        assert sorted(consumer.values) == more


def test_groups_do_not_disturb_each_other(served: str, topic: str) -> None:
    values = fill(served, topic, 30)
    with GroupConsumer(served, f"{topic}.a", topic) as one, GroupConsumer(served, f"{topic}.b", topic) as other:
        wait_until(lambda: sorted(one.values) == sorted(other.values) == values, "each group reads everything")


def test_partitions_that_are_added_are_read(served: str, topic_name: Callable[[], str]) -> None:
    topic = new_topic(served, topic_name(), partitions=1)
    with GroupConsumer(served, topic, topic) as consumer:
        wait_shared([consumer], 1)
        admin = ck.admin.AdminClient({"bootstrap.servers": served})
        admin.create_partitions([ck.admin.NewPartitions(topic, 3)])[topic].result(30)
        wait_shared([consumer], 3)


def test_a_pattern_finds_topics_that_come_later(served: str, topic_name: Callable[[], str]) -> None:
    stem = topic_name()
    first = new_topic(served, f"{stem}.one", partitions=2)
    with GroupConsumer(served, stem, f"^{stem}.*") as consumer:
        wait_until(lambda: consumer.owned == {(first, 0), (first, 1)}, "the first topic is found")
        second = new_topic(served, f"{stem}.two", partitions=1)
        wait_until(lambda: (second, 0) in consumer.owned, "the second topic is found")


# Static members


def test_a_static_member_restarts_without_a_rebalance(quick_broker: str) -> None:
    topic = new_topic(quick_broker, "static-restart")
    settings = {"session_timeout_ms": 30_000, "partition_assignment_strategy": "range"}
    other = GroupConsumer(quick_broker, topic, topic, group_instance_id="other", **settings)
    member = GroupConsumer(quick_broker, topic, topic, group_instance_id="one", **settings)
    wait_shared([other, member], PARTITIONS)
    before = frozenset(member.owned)
    rebalances = len(other.given), len(other.taken)

    def restarted(member: GroupConsumer) -> GroupConsumer:
        member.close()
        values = fill(quick_broker, topic, 6)
        successor = GroupConsumer(quick_broker, topic, topic, group_instance_id="one", **settings)
        wait_until(lambda: frozenset(successor.owned) == before, "it has its partitions again")
        wait_until(lambda: set(values) <= set(successor.values + other.values), "nothing was left out meanwhile")
        return successor

    for _ in range(3):
        member = restarted(member)
    assert (len(other.given), len(other.taken)) == rebalances
    member.close()
    other.close()


def test_two_processes_cannot_be_one_static_member(quick_broker: str) -> None:
    topic = new_topic(quick_broker, "static-twice")
    first = GroupConsumer(quick_broker, topic, topic, group_instance_id="one")
    wait_shared([first], PARTITIONS)
    second = GroupConsumer(quick_broker, topic, topic, group_instance_id="one")
    wait_shared([second], PARTITIONS)
    wait_until(lambda: first.errors, "the first is told")
    assert first.errors[-1].code() in (ck.KafkaError.FENCED_INSTANCE_ID, ck.KafkaError._FATAL)
    first.close()
    second.close()


# Crashes


CRASHING = """
import sys
sys.path[:0] = sys.argv[1].split(",")
from group_consumers import GroupConsumer
import time
consumer = GroupConsumer(sys.argv[2], sys.argv[3], sys.argv[3], session_timeout_ms=int(sys.argv[4]))
while len(consumer.owned) < int(sys.argv[5]):
    time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""


def test_the_part_of_a_member_that_crashed_is_taken_over(quick_broker: str) -> None:
    topic = new_topic(quick_broker, "crash")
    survivor = GroupConsumer(quick_broker, topic, topic, session_timeout_ms=SESSION_MS)
    wait_shared([survivor], PARTITIONS)
    paths = ",".join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-c", CRASHING, paths, quick_broker, topic, str(SESSION_MS), "3"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        wait_until(lambda: len(survivor.owned) == 3, "they share")
        process.send_signal(signal.SIGKILL)
        died = time.monotonic()
        wait_shared([survivor], PARTITIONS)
        # It began with the last heartbeat, which is older than the kill where the machine is busy.
        assert time.monotonic() - died > SESSION_MS / 4000, "it had its session to come back"
        values = fill(quick_broker, topic, 60)
        wait_until(lambda: set(values) <= set(survivor.values), "everything is read")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        survivor.close()


# Restarts


@pytest.mark.parametrize("strategy", ["range", STICKY])
def test_a_rolling_restart_of_the_members_loses_nothing(quick_broker: str, strategy: str) -> None:
    topic = new_topic(quick_broker, f"rolling-{strategy}")
    settings = {"partition_assignment_strategy": strategy, "session_timeout_ms": 30_000}
    members = [GroupConsumer(quick_broker, topic, topic, **settings) for _ in range(3)]
    retired: list[GroupConsumer] = []
    values: list[bytes] = []
    wait_shared(members, PARTITIONS)
    for number in range(3):
        values += fill(quick_broker, topic, 30, first=30 * number)
        members[0].close()
        retired.append(members.pop(0))
        members.append(GroupConsumer(quick_broker, topic, topic, **settings))
        wait_shared(members, PARTITIONS)
    wait_until(lambda: set(values) <= {value for each in members + retired for value in each.values}, "all is read")
    for member in members:
        member.close()
    assert committed(quick_broker, topic, topic, PARTITIONS) == [15] * PARTITIONS


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_members_outlive_their_coordinator(disk_broker: BrokerProcess, how: str) -> None:
    topic = new_topic(disk_broker.address, "outlive")
    settings = {"session_timeout_ms": 10_000}
    members = [GroupConsumer(disk_broker.address, topic, topic, **settings) for _ in range(2)]
    wait_shared(members, PARTITIONS)
    values = fill(disk_broker.address, topic, 60)
    wait_until(lambda: sorted(members[0].values + members[1].values) == values, "all is read")
    before = committed(disk_broker.address, topic, topic, PARTITIONS)
    assert before == [10] * PARTITIONS
    if how == "stop":
        disk_broker.restart()
    else:
        disk_broker.kill()
        disk_broker.start()
    values += fill(disk_broker.address, topic, 60, first=60)
    wait_until(lambda: set(values) <= set(members[0].values + members[1].values), "they go on")
    wait_until(lambda: shared(members, PARTITIONS), "and share as before")
    for member in members:
        member.close()
    assert committed(disk_broker.address, topic, topic, PARTITIONS) == [20] * PARTITIONS
    assert len(set(members[0].values + members[1].values)) == 120


# Administration


def test_administration(served: str, topic: str) -> None:
    admin = ck.admin.AdminClient({"bootstrap.servers": served})
    fill(served, topic, 12)
    with GroupConsumer(served, topic, topic, client_id="me", group_instance_id="one") as member:
        wait_until(lambda: len(member.values) == 12, "all is read")
        described = admin.describe_consumer_groups([topic])[topic].result(30)
        assert described.state == ck.ConsumerGroupState.STABLE
        assert described.partition_assignor == "range"
        (found,) = described.members
        assert (found.client_id, found.group_instance_id) == ("me", "one")
        assert {(each.topic, each.partition) for each in found.assignment.topic_partitions} == member.owned
        listed = admin.list_consumer_groups(states={ck.ConsumerGroupState.STABLE}).result(30)
        assert topic in {each.group_id for each in listed.valid}
        with pytest.raises(ck.KafkaException) as refused:
            admin.delete_consumer_groups([topic])[topic].result(30)
        assert refused.value.args[0].code() == ck.KafkaError.NON_EMPTY_GROUP
    leave_static(served, topic, "one")
    wanted = ck.ConsumerGroupTopicPartitions(topic, [ck.TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([wanted])[topic].result(30)
    asked = ck.ConsumerGroupTopicPartitions(topic)
    offsets = admin.list_consumer_group_offsets([asked])[topic].result(30)
    assert {each.partition: each.offset for each in offsets.topic_partitions} == {0: 1, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2}
    admin.delete_consumer_groups([topic])[topic].result(30)
    assert committed(served, topic, topic, 1) == [ck.OFFSET_INVALID]


def leave_static(served: str, group: str, instance: str) -> None:
    import group_wire
    from wire import Wire

    with Wire(served) as wire:
        left = group_wire.leave(wire, group, ("", instance))
        assert [each.error_code for each in left.members] == [0]
