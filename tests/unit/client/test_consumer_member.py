"""A member of the new protocol, step by step: what its heartbeats say, and how it gets from target to target."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.client.consuming.consumer_member import ConsumerMember
from barnabas.client.consuming.group_member import NEVER_MS, Change, ChangeKind, MemberSettings
from barnabas.client.errors import KafkaError
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from barnabas.types import TopicPartition

ID, OTHER_ID = b"i" * 16, b"j" * 16
P0, P1, P2 = (TopicPartition("letters", number) for number in range(3))


def member(*, instance_id: str | None = None, pattern: str | None = None) -> ConsumerMember:
    made = ConsumerMember(
        MemberSettings(group_id="castle", instance_id=instance_id, max_poll_interval_ms=60_000, rack="east"), Random(1)
    )
    made.subscribe([] if pattern else ["letters"], pattern)
    made.poll_began(0)
    return made


def sent(made: ConsumerMember, now_ms: float) -> ConsumerGroupHeartbeatRequest:
    request = made.next_request(now_ms)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert made.next_request(now_ms) is None, "one at a time"
    return request


def answered(made: ConsumerMember, epoch: int, *numbers: int, now_ms: float = 0, topic_id: bytes = ID) -> None:
    topics = [ResponseTopicPartitions(topic_id=topic_id, partitions=list(numbers))]
    made.answered(
        ConsumerGroupHeartbeatResponse(
            member_id=made.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=5000,
            assignment=Assignment(topic_partitions=topics if numbers else []),
        ),
        now_ms,
    )


def nothing_new(made: ConsumerMember, epoch: int, now_ms: float) -> None:
    made.answered(ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=5000), now_ms)


def refused(made: ConsumerMember, error: ErrorCode, now_ms: float = 0) -> None:
    made.answered(ConsumerGroupHeartbeatResponse(error_code=error), now_ms)


def owning(*numbers: int) -> ConsumerMember:
    made = member()
    sent(made, 0)
    answered(made, 1, *numbers)
    made.names_known({ID: "letters"})
    made.change_done(0)
    sent(made, 0)
    nothing_new(made, 1, 0)
    assert made.is_settled
    return made


def test_the_first_heartbeat_says_everything() -> None:
    request = sent(member(), 0)
    assert (request.member_epoch, request.rebalance_timeout_ms, request.rack_id) == (0, 60_000, "east")
    assert (request.subscribed_topic_names, request.topic_partitions) == (["letters"], [])
    assert request.subscribed_topic_regex is None
    assert request.member_id


def test_a_pattern_is_the_coordinators_to_match() -> None:
    request = sent(member(pattern="lett.*"), 0)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "lett.*")


def test_what_is_given_waits_for_names_and_for_the_application() -> None:
    made = member()
    sent(made, 0)
    answered(made, 1, 0, 1)
    assert made.ids_wanted == (ID,)
    assert made.change is None
    made.names_known({ID: "letters"})
    assert made.change == Change(ChangeKind.ASSIGNED, (P0, P1))
    made.change_done(0)
    assert made.owned == (P0, P1)
    request = sent(made, 1)  # at once, to say so
    assert request.topic_partitions is not None
    assert [(each.topic_id, each.partitions) for each in request.topic_partitions] == [(ID, [0, 1])]
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (None, -1)


def test_heartbeats_are_empty_while_nothing_changes() -> None:
    made = owning(0)
    assert made.next_request(4999) is None
    assert made.next_deadline_ms() == 5000
    request = sent(made, 5000)
    assert (request.topic_partitions, request.subscribed_topic_names, request.member_epoch) == (None, None, 1)


def test_what_is_taken_away_goes_first_and_is_then_told() -> None:
    made = owning(0, 1)
    sent(made, 5000)
    answered(made, 1, 0, now_ms=5001)
    assert made.change == Change(ChangeKind.REVOKED, (P1,))
    assert made.next_request(5002) is None, "it has not let go yet"
    made.change_done(5003)
    request = sent(made, 5003)
    assert request.topic_partitions is not None
    assert [each.partitions for each in request.topic_partitions] == [[0]]


def test_a_newer_target_comes_after_the_one_under_way() -> None:
    made = owning(0, 1)
    sent(made, 5000)
    answered(made, 1, 0, now_ms=5000)
    sent(made, 10_000)
    answered(made, 3, 0, 2, now_ms=10_000)
    assert made.change == Change(ChangeKind.REVOKED, (P1,))
    made.change_done(10_001)
    assert made.change == Change(ChangeKind.ASSIGNED, (P2,))
    made.change_done(10_001)
    assert made.owned == (P0, P2)
    assert made.generation == 3


def test_a_topic_that_was_made_anew_is_taken_up_anew() -> None:
    made = owning(0)
    sent(made, 5000)
    answered(made, 2, 0, now_ms=5000, topic_id=OTHER_ID)
    assert made.change == Change(ChangeKind.REVOKED, (P0,)), "the old one is gone"
    made.names_known({OTHER_ID: "letters"})
    made.change_done(5001)
    assert made.change == Change(ChangeKind.ASSIGNED, (P0,))
    made.change_done(5001)
    request = sent(made, 5001)
    assert request.topic_partitions is not None
    assert [each.topic_id for each in request.topic_partitions] == [OTHER_ID]


def test_a_topic_that_was_made_anew_while_something_else_was_taken_away() -> None:
    made = owning(0, 1)
    sent(made, 5000)
    answered(made, 2, 0, now_ms=5000)
    sent(made, 10_000)
    answered(made, 3, 0, now_ms=10_000, topic_id=OTHER_ID)
    made.names_known({OTHER_ID: "letters"})
    assert made.change == Change(ChangeKind.REVOKED, (P1,))
    made.change_done(10_001)
    assert made.change == Change(ChangeKind.REVOKED, (P0,)), (
        "it has the name of the new one, and the records of the old"
    )
    made.change_done(10_002)
    assert made.change == Change(ChangeKind.ASSIGNED, (P0,))


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_was_thrown_out_has_lost_everything_and_joins_anew(error: ErrorCode) -> None:
    made = owning(0, 1)
    member_id = made.member_id
    sent(made, 5000)
    refused(made, error)
    assert not made.is_member
    assert made.change == Change(ChangeKind.LOST, (P0, P1))
    assert made.next_request(5001) is None
    assert made.next_deadline_ms() == NEVER_MS
    made.change_done(5001)
    request = sent(made, 5001)
    assert (request.member_epoch, request.member_id) == (0, member_id)
    assert (request.topic_partitions, request.subscribed_topic_names) == ([], ["letters"])


def test_after_a_failure_everything_is_said_again() -> None:
    made = owning(0)
    sent(made, 5000)
    made.failed(5100)
    request = sent(made, 5100)
    assert (request.subscribed_topic_names, request.member_epoch) == (["letters"], 1)
    assert request.topic_partitions is not None
    assert [each.partitions for each in request.topic_partitions] == [[0]]


def test_a_stale_epoch_asks_for_the_one_that_counts() -> None:
    made = owning(0)
    assert not made.thrown_out(ErrorCode.STALE_MEMBER_EPOCH, 1)
    assert made.next_deadline_ms() == 0
    sent(made, 1)
    nothing_new(made, 4, 1)
    assert made.generation == 4
    assert made.thrown_out(ErrorCode.UNKNOWN_MEMBER_ID, 2)
    assert made.change == Change(ChangeKind.LOST, (P0,))


def test_other_topics_and_patterns_are_told_at_once() -> None:
    made = owning(0)
    made.subscribe(["others"])
    assert sent(made, 1).subscribed_topic_names == ["others"]
    nothing_new(made, 1, 1)
    made.subscribe([], "l.*")
    request = sent(made, 2)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "l.*")
    nothing_new(made, 1, 2)
    made.subscribe(["letters"])
    request = sent(made, 3)
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["letters"], "")


def test_an_application_that_does_not_poll_leaves_the_group(caplog: pytest.LogCaptureFixture) -> None:
    made = owning(0)
    made.poll_ended(1000)
    request = sent(made, 61_000)
    assert request.member_epoch == -1
    assert "group castle: nothing was polled for 60000 ms" in caplog.text
    nothing_new(made, -1, 61_001)
    assert made.next_request(70_000) is None
    assert made.poll_began(80_000)
    assert made.change == Change(ChangeKind.LOST, (P0,))
    made.change_done(80_000)
    assert sent(made, 80_000).member_epoch == 0


def test_good_bye() -> None:
    made = owning(0)
    request = made.leave_request()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.member_epoch == -1
    assert made.next_request(10_000) is None
    assert ConsumerMember(MemberSettings(group_id="castle"), Random(1)).leave_request() is None


def test_a_static_member_goes_for_a_while() -> None:
    made = member(instance_id="i")
    assert sent(made, 0).instance_id == "i"
    answered(made, 1)
    request = made.leave_request()
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.instance_id) == (-2, "i")


def test_a_refusal_that_does_not_pass_is_a_failure() -> None:
    made = member()
    sent(made, 0)
    refused(made, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert isinstance(made.failure, KafkaError)
    assert made.failure.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert made.next_request(10_000) is None


def test_a_member_fenced_while_partitions_are_given_to_it_loses_them_right_after() -> None:
    made = owning(0)
    sent(made, 5000)
    answered(made, 2, 0, 1, now_ms=5000)
    assert made.begin_change() == Change(ChangeKind.ASSIGNED, (P1,))
    sent(made, 10_000)
    refused(made, ErrorCode.FENCED_MEMBER_EPOCH, now_ms=10_000)
    assert made.next_request(10_000) is None, "who has not heard of the loss does not join"
    made.change_done(10_000)
    assert made.begin_change() == Change(ChangeKind.LOST, (P0, P1))
    made.change_done(10_000)
    assert (made.owned, made.change) == ((), None)
    assert sent(made, 10_000).member_epoch == 0


def test_an_answer_to_who_it_was_before_does_not_make_it_a_member_again() -> None:
    made = owning(0)
    sent(made, 5000)
    assert made.thrown_out(ErrorCode.UNKNOWN_MEMBER_ID, 5000), "a commit brings the news, before the heartbeat's answer"
    nothing_new(made, 1, 5000)
    assert not made.is_member
    made.change_done(5000)
    assert sent(made, 5000).member_epoch == 0
