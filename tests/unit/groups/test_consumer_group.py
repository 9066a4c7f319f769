"""Consumer groups where dialogues do not reach: timers, records of other brokers, settings of single groups."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "support"))

from consumer_script import ConsumerScript

from barnabas.errors import ErrorCode
from barnabas.groups.consumer import ConsumerGroup
from barnabas.groups.consumer_member import MemberState
from barnabas.groups.records import GroupRecord, decode, encode
from barnabas.groups.timers import TimerKey, TimerKind
from barnabas.protocol.messages import consumer_group_current_member_assignment_value as current_value
from barnabas.protocol.messages.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from barnabas.protocol.messages.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from barnabas.protocol.messages.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue


def script(*lines: str) -> ConsumerScript:
    made = ConsumerScript()
    for line in lines:
        made.run(line)
    return made


def group_of(made: ConsumerScript) -> ConsumerGroup:
    group = made.shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def write(made: ConsumerScript, record: GroupRecord) -> None:
    """As if another broker had written it, and this one had read it."""
    made.log.append(encode(record))
    read = decode(*made.log[-1])
    assert read is not None
    made.shard.apply(read, len(made.log) - 1)


def test_no_timer_outlives_its_member() -> None:
    made = script("topics t=4", "beat a topics=t", "beat b topics=t", "beat a", "join c topics=t", "join c topics=t")
    group = group_of(made)
    assert made.shard.surroundings.timers.deadline_ms(group.timer(TimerKind.REBALANCE, "a")) is not None
    made.run("bye a")
    made.run("bye b")
    timers = made.shard.surroundings.timers
    for kind in (TimerKind.SESSION, TimerKind.REBALANCE, TimerKind.JOIN, TimerKind.SYNC):
        for member_id in ("a", "b"):
            assert timers.deadline_ms(TimerKey(kind, "g", member_id)) is None


def test_a_deleted_group_leaves_no_timer() -> None:
    made = script("topics t=4", "beat a regex=t.*", "wait 0", "beat a", "bye a", "delete")
    assert made.shard.groups == {}
    keys = [TimerKey(TimerKind.SESSION, "g", "a"), TimerKey(TimerKind.REFRESH, "g")]
    assert [made.shard.surroundings.timers.deadline_ms(key) for key in keys] == [None, None]


def test_partitions_of_brokers_that_wrote_no_epochs_are_as_old_as_the_members_epoch() -> None:
    made = script("topics t=4", "beat a topics=t")
    topic = made.topic_id("t")
    partitions = current_value.TopicPartitions(topic_id=topic, partitions=[0, 1], assignment_epochs=None)
    value = current_value.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=1, assigned_partitions=[partitions]
    )
    write(made, GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"), value))
    assert group_of(made).state.members["a"].assigned == {topic: {0: 2, 1: 2}}


def test_a_member_in_a_state_of_the_future_must_begin_again() -> None:
    made = script("topics t=4", "beat a topics=t")
    value = current_value.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2, previous_member_epoch=2, state=7)
    write(made, GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a"), value))
    assert group_of(made).state.members["a"].state is MemberState.UNKNOWN
    (answer,) = made.run("beat a")
    assert answer.startswith("a beat: FENCED_MEMBER_EPOCH")
    assert made.run("beat a topics=t")[-1] == "a beat: epoch 2, t 0,1,2,3"


def test_the_partition_metadata_of_older_brokers_is_taken_out_of_the_log() -> None:
    made = script("topics t=4", "beat a topics=t")
    write(made, GroupRecord(ConsumerGroupPartitionMetadataKey(group_id="g"), ConsumerGroupPartitionMetadataValue()))
    assert group_of(made).state.has_partition_metadata
    assert "log: PartitionMetadata g: gone" in made.run("beat a topics=t,u")
    assert not group_of(made).state.has_partition_metadata


def test_tombstones_of_a_group_that_is_not_there_mean_nothing() -> None:
    made = script("topics t=4", "beat a topics=t", "bye a", "delete")
    made.run("beat b topics=t group=other")
    for key, value in list(made.log):
        if value is None:
            record = decode(key, value)
            assert record is not None
            made.shard.apply(record, 0)
    assert list(made.shard.groups) == ["other"]


def test_single_groups_have_settings_of_their_own() -> None:
    made = script("topics t=4")
    surroundings = made.shard.surroundings
    surroundings.consumer_overrides = {"g": surroundings.consumer._replace(session_timeout_ms=50_000)}
    for group in ("g", "other"):
        made.run(f"beat a{group} topics=t group={group}")
    made.run("wait 49999")
    assert not made.shard.groups["g"].is_empty
    assert made.shard.groups["other"].is_empty
    made.run("wait 1")
    assert made.shard.groups["g"].is_empty


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, ErrorCode.NONE),
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("a", 3, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_fetch_offsets(member_id: str | None, epoch: int, error: ErrorCode) -> None:
    made = script("topics t=4", "beat a topics=t")
    assert group_of(made).check_offset_fetch(member_id=member_id, epoch=epoch) == error


def test_offsets_of_a_group_age_from_their_commit() -> None:
    made = script("topics t=4", "beat a topics=t")
    assert group_of(made).offsets_age_from_ms(7) == 7
    assert group_of(made).is_subscribed("t")
    assert not group_of(made).is_subscribed("u")
