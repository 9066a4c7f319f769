"""A member of the classic protocol, step by step: what it sends, what the application hears, what a refusal does."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.assignors.cooperative_sticky import COOPERATIVE_STICKY
from barnabas.client.assignors.exchange import assigned_partitions
from barnabas.client.assignors.range import RANGE
from barnabas.client.consuming.classic_member import ClassicMember, State
from barnabas.client.consuming.group_member import NEVER_MS, Change, ChangeKind, MemberSettings
from barnabas.client.errors import GroupFencedError
from barnabas.errors import ErrorCode
from barnabas.protocol.consumer_protocol import decode_subscription, encode_with_version
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.types import TopicPartition

P0, P1, P2 = (TopicPartition("letters", number) for number in range(3))


def member(*, cooperative: bool = False, instance_id: str | None = None, rack: str | None = None) -> ClassicMember:
    assignor = COOPERATIVE_STICKY if cooperative else RANGE
    made = ClassicMember(
        MemberSettings(
            group_id="castle",
            instance_id=instance_id,
            rack=rack,
            max_poll_interval_ms=60_000,
            session_timeout_ms=9000,
            heartbeat_interval_ms=3000,
            assignors=(assignor,),
        )
    )
    made.subscribe(["letters"])
    made.poll_began(0)
    return made


def sent(made: ClassicMember, now_ms: float, kind: type) -> Any:
    request = made.next_request(now_ms)
    assert isinstance(request, kind), request
    assert made.next_request(now_ms) is None, "one at a time"
    assert made.next_deadline_ms() == NEVER_MS
    return request


def joined(made: ClassicMember, generation: int, now_ms: float, *, leads: bool = False) -> None:
    request = sent(made, now_ms, JoinGroupRequest)
    members = [JoinGroupResponseMember(member_id="m", metadata=request.protocols[0].metadata)] if leads else []
    made.answered(
        JoinGroupResponse(
            generation_id=generation,
            protocol_name=request.protocols[0].name,
            leader="m" if leads else "other",
            member_id="m",
            members=members,
        ),
        now_ms,
    )


def given(made: ClassicMember, now_ms: float, *partitions: TopicPartition) -> None:
    sent(made, now_ms, SyncGroupRequest)
    topics = [AssignedTopic(topic="letters", partitions=[each.partition for each in partitions])]
    message = ConsumerProtocolAssignment(assigned_partitions=topics if partitions else [])
    made.answered(SyncGroupResponse(assignment=encode_with_version(message, 3)), now_ms)


def heard(made: ClassicMember, now_ms: float, error: ErrorCode = ErrorCode.NONE) -> None:
    sent(made, now_ms, HeartbeatRequest)
    made.answered(HeartbeatResponse(error_code=error), now_ms)


def stable(*partitions: TopicPartition, cooperative: bool = False, instance_id: str | None = None) -> ClassicMember:
    made = member(cooperative=cooperative, instance_id=instance_id)
    joined(made, 1, 0)
    given(made, 0, *partitions)
    assert made.change == Change(ChangeKind.ASSIGNED, partitions)
    made.change_done(0)
    assert made.is_settled
    assert made.owned == partitions
    return made


def test_nothing_is_sent_before_the_first_poll() -> None:
    made = ClassicMember(MemberSettings(group_id="castle", assignors=(RANGE,)))
    made.subscribe(["letters"])
    assert made.next_request(0) is None
    assert made.next_deadline_ms() == NEVER_MS
    assert made.poll_began(0)
    assert isinstance(made.next_request(0), JoinGroupRequest)


def test_a_new_member_asks_again_with_the_id_that_it_is_given() -> None:
    made = member()
    assert sent(made, 0, JoinGroupRequest).member_id == ""
    made.answered(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m"), 0)
    assert sent(made, 0, JoinGroupRequest).member_id == "m"


def test_the_leader_waits_for_metadata_and_assigns() -> None:
    made = member()
    joined(made, 1, 0, leads=True)
    assert made.topics_wanted == ("letters",)
    assert made.next_request(0) is None
    made.partitions_known({"letters": 2, "others": 5})
    request = sent(made, 0, SyncGroupRequest)
    assert (request.generation_id, request.protocol_name) == (1, "range")
    (assignment,) = request.assignments
    assert assigned_partitions(assignment.assignment) == [P0, P1]


def test_the_leader_gives_who_is_in_a_rack_what_is_there() -> None:
    made = member(rack="a")
    members = []
    for member_id, joining in {"m": made, "n": member(rack="b")}.items():
        request = sent(joining, 0, JoinGroupRequest)
        members.append(JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata))
    made.answered(
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="m", member_id="m", members=members), 0
    )
    made.partitions_known({"letters": 2}, {P0: frozenset("b"), P1: frozenset("a")})
    found = {
        each.member_id: assigned_partitions(each.assignment) for each in sent(made, 0, SyncGroupRequest).assignments
    }
    assert found == {"m": [P1], "n": [P0]}


@pytest.mark.parametrize("rack", ["a", None])
def test_the_leader_joins_again_when_replicas_move_to_other_racks(rack: str | None) -> None:
    made = member(rack=rack)
    joined(made, 1, 0, leads=True)
    made.partitions_known({"letters": 1}, {P0: frozenset("a")})
    given(made, 0, P0)
    made.change_done(0)
    made.partitions_known({"letters": 1}, {P0: frozenset("a"), TopicPartition("others", 0): frozenset("b")})
    assert made.is_settled
    made.partitions_known({"letters": 1}, {P0: frozenset("b")})
    assert made.is_settled == (rack is None), "where it has no rack itself, racks are nothing to it"


def test_the_leader_joins_again_when_partitions_come() -> None:
    made = member()
    joined(made, 1, 0, leads=True)
    made.partitions_known({"letters": 2})
    given(made, 0, P0, P1)
    made.change_done(0)
    made.partitions_known({"letters": 2, "others": 7})
    assert made.is_settled
    made.partitions_known({"letters": 3})
    assert not made.is_settled
    assert made.next_request(0) is None
    assert made.change == Change(ChangeKind.REVOKED, (P0, P1))


def test_an_eager_member_gives_everything_up_before_it_joins() -> None:
    made = stable(P0, P1)
    heard(made, 3000, ErrorCode.REBALANCE_IN_PROGRESS)
    assert made.next_request(3001) is None
    assert made.change == Change(ChangeKind.REVOKED, (P0, P1))
    heard(made, 6000, ErrorCode.REBALANCE_IN_PROGRESS)  # until the application has let go, it stays alive
    made.change_done(6001)
    request = sent(made, 6001, JoinGroupRequest)
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription.owned_partitions == []
    assert subscription.generation_id == 1


def test_a_cooperative_member_keeps_what_it_has_and_joins_twice() -> None:
    made = stable(P0, P1, cooperative=True)
    heard(made, 3000, ErrorCode.REBALANCE_IN_PROGRESS)
    request = made.next_request(3001)
    assert isinstance(request, JoinGroupRequest)
    assert made.change is None
    (owned,) = decode_subscription(request.protocols[0].metadata).owned_partitions
    assert owned.partitions == [0, 1]
    made.answered(
        JoinGroupResponse(generation_id=2, protocol_name="cooperative-sticky", leader="other", member_id="m"), 3002
    )
    given(made, 3002, P0)
    assert made.change == Change(ChangeKind.REVOKED, (P1,))
    made.change_done(3003)
    assert made.change == Change(ChangeKind.ASSIGNED, ())
    made.change_done(3003)
    assert made.owned == (P0,)
    assert isinstance(made.next_request(3003), JoinGroupRequest), "so that another gets what it let go"


def test_other_topics_are_told_by_joining() -> None:
    made = stable(P0, cooperative=True)
    made.subscribe(["others"])
    assert made.next_request(1) is None
    assert made.change == Change(ChangeKind.REVOKED, (P0,))
    made.change_done(1)
    request = sent(made, 1, JoinGroupRequest)
    assert decode_subscription(request.protocols[0].metadata).topics == ["others"]


@pytest.mark.parametrize(
    ("error", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")]
)
def test_who_was_thrown_out_has_lost_everything_and_joins_anew(error: ErrorCode, member_id: str) -> None:
    made = stable(P0, P1)
    heard(made, 3000, error)
    assert not made.is_member
    assert made.change == Change(ChangeKind.LOST, (P0, P1))
    assert made.next_request(3001) is None, "the application must hear of it first"
    made.change_done(3001)
    assert made.owned == ()
    assert sent(made, 3001, JoinGroupRequest).member_id == member_id


def test_a_pending_revocation_becomes_a_loss() -> None:
    made = stable(P0)
    heard(made, 3000, ErrorCode.REBALANCE_IN_PROGRESS)
    assert made.next_request(3001) is None
    heard(made, 6000, ErrorCode.UNKNOWN_MEMBER_ID)
    assert made.change == Change(ChangeKind.LOST, (P0,))


def test_a_refused_commit_speaks_of_the_member() -> None:
    made = stable(P0)
    assert not made.thrown_out(ErrorCode.OFFSET_METADATA_TOO_LARGE, 0)
    assert not made.thrown_out(ErrorCode.REBALANCE_IN_PROGRESS, 0)
    assert not made.is_settled
    assert made.thrown_out(ErrorCode.UNKNOWN_MEMBER_ID, 0)
    assert made.change == Change(ChangeKind.LOST, (P0,))


def test_a_rebalance_that_begins_anew_while_it_syncs() -> None:
    made = member()
    joined(made, 1, 0)
    sent(made, 0, SyncGroupRequest)
    made.answered(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 0)
    assert isinstance(made.next_request(0), JoinGroupRequest)


def test_a_request_without_an_answer_is_made_again() -> None:
    made = member()
    sent(made, 0, JoinGroupRequest)
    made.failed(1)
    joined(made, 4, 1)
    assert sent(made, 1, SyncGroupRequest).generation_id == 4
    made.failed(2)
    assert sent(made, 2, SyncGroupRequest).generation_id == 4


def test_heartbeats_come_at_their_interval() -> None:
    made = stable(P0)
    assert made.next_request(2999) is None
    assert made.next_deadline_ms() == 3000
    heard(made, 3000)
    assert made.next_deadline_ms() == 6000


def test_an_application_that_does_not_poll_leaves_the_group(caplog: pytest.LogCaptureFixture) -> None:
    made = stable(P0)
    made.poll_ended(1000)
    made.next_request(60_999)  # a heartbeat
    made.answered(HeartbeatResponse(), 60_999)
    assert made.next_deadline_ms() == 61_000
    request = sent(made, 61_000, LeaveGroupRequest)
    assert [each.member_id for each in request.members] == ["m"]
    assert "group castle: nothing was polled for 60000 ms" in caplog.text
    made.answered(LeaveGroupResponse(), 61_001)
    assert made.next_request(61_001) is None
    assert made.poll_began(80_000), "it was idle"
    assert made.change == Change(ChangeKind.LOST, (P0,))
    made.change_done(80_000)
    assert sent(made, 80_000, JoinGroupRequest).member_id == ""


def test_a_poll_that_takes_long_is_a_poll() -> None:
    made = stable(P0)
    made.next_request(200_000)
    assert made.state is State.STABLE


def test_a_static_member_leaves_without_a_word() -> None:
    made = stable(P0, instance_id="i")
    assert made.leave_request() is None
    assert made.next_request(1) is None


def test_a_dynamic_one_says_good_bye() -> None:
    made = stable(P0)
    assert isinstance(made.leave_request(), LeaveGroupRequest)
    made.answered(HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 1)  # too late to mean anything
    assert made.next_request(1) is None


def test_a_fenced_instance_ends_for_good() -> None:
    made = stable(P0, instance_id="i")
    heard(made, 3000, ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(made.failure, GroupFencedError)
    assert made.next_request(9000) is None
    assert made.next_deadline_ms() == NEVER_MS


def test_the_answer_to_a_join_may_take_as_long_as_a_rebalance() -> None:
    made = member()
    assert made.timeout_ms(sent(made, 0, JoinGroupRequest), 30_000) == 65_000
    assert made.timeout_ms(HeartbeatRequest(), 30_000) == 30_000


def test_a_member_fenced_while_partitions_are_given_to_it_loses_them_right_after() -> None:
    made = member()
    joined(made, 1, 0)
    given(made, 0, P0)
    assert made.begin_change() == Change(ChangeKind.ASSIGNED, (P0,))
    heard(made, 3000, ErrorCode.UNKNOWN_MEMBER_ID)
    assert made.change == Change(ChangeKind.ASSIGNED, (P0,)), "it was begun, and is finished"
    assert made.next_request(3000) is None, "who has not heard of the loss does not join"
    made.change_done(3000)
    assert made.owned == (P0,)
    assert made.begin_change() == Change(ChangeKind.LOST, (P0,))
    made.change_done(3000)
    assert (made.owned, made.change) == ((), None)
    sent(made, 3000, JoinGroupRequest)


def test_a_member_fenced_while_partitions_are_taken_from_it_loses_the_others() -> None:
    made = member(cooperative=True)
    joined(made, 1, 0)
    given(made, 0, P0, P1, P2)
    made.change_done(0)
    heard(made, 3000, ErrorCode.REBALANCE_IN_PROGRESS)
    joined(made, 2, 3000)
    given(made, 3000, P0)
    assert made.begin_change() == Change(ChangeKind.REVOKED, (P1, P2))
    heard(made, 6000, ErrorCode.UNKNOWN_MEMBER_ID)
    made.change_done(6000)
    assert made.begin_change() == Change(ChangeKind.LOST, (P0,))
    made.leave_request()
    assert made.change == Change(ChangeKind.LOST, (P0,)), "to lose it once is enough"
    made.change_done(6000)
    assert (made.owned, made.change) == ((), None)
