"""Cases about groups and their offsets."""

from __future__ import annotations

import time
from typing import Any

from answer_cases import case
from dialogue import Dialogue
from group_wire import commit, join, join_request, leave, subscription, sync_request, topic_id
from wire import Wire

from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest

MEMBER = "bWVtYmVyLW9mLWNhc2U"


def consumer_join(dialogue: Dialogue, group: str, topic: str, **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=fields.pop("member", MEMBER),
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
        **fields,
    )
    response = dialogue.wire.call(request, 1)
    while response.member_epoch > 0 and response.assignment is None:
        again = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=request.member_id, member_epoch=response.member_epoch, topic_partitions=[]
        )
        response = dialogue.wire.call(again, 1)
        time.sleep(0.05)
    return response


@case
def consumer_commit_epochs(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    identity = topic_id(dialogue.wire, topic)
    group = dialogue.group()
    joined = consumer_join(dialogue, group, topic)
    dialogue.expect("member epoch", joined.member_epoch)
    for version in (8, 9, 10):
        named = identity if version >= 10 else topic
        for member in (MEMBER, "", "stranger"):
            for epoch in (-2, -1, 0, 1, joined.member_epoch, joined.member_epoch + 1):
                errors = commit(dialogue.wire, group, {(named, 0): 1}, member=member, generation=epoch, version=version)
                dialogue.expect(f"commit v{version} of {member!r} at {epoch}", list(errors.values()))


@case
def classic_commit_generations(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    group = dialogue.group()
    for member in ("", "stranger"):
        for generation in (-2, -1, 0, 1):
            errors = commit(dialogue.wire, group, {(topic, 0): 1}, member=member, generation=generation)
            dialogue.expect(f"commit to no group of {member!r} at {generation}", list(errors.values()))
    joined = join(dialogue.wire, group, protocols=(("range", subscription(topic)),))
    dialogue.wire.call(sync_request(group, joined.member_id, 1, {joined.member_id: b"part"}), 5)
    for member in (joined.member_id, "", "stranger"):
        for generation in (-2, -1, 0, 1, 2):
            errors = commit(dialogue.wire, group, {(topic, 0): 1}, member=member, generation=generation)
            who = "the member" if member == joined.member_id else repr(member)
            dialogue.expect(f"commit of {who} at {generation}", list(errors.values()))


@case
def rejected_joins(dialogue: Dialogue) -> None:
    """Which member id a refused JoinGroup is told, at each version that differs."""
    group = dialogue.group()
    for version in (2, 3, 4, 5, 7, 9):
        dialogue.note(f"version {version}, a group that does not exist")
        for member in ("", "stranger"):
            ask_join(dialogue, version, "", member)
            ask_join(dialogue, version, group, member, session_ms=1)
            ask_join(dialogue, version, group, member, session_ms=2_000_000_000)
            ask_join(dialogue, version, group, member, protocol_type="")
            ask_join(dialogue, version, group, member, protocols=())
        ask_join(dialogue, version, group, "stranger")
    joined = join(dialogue.wire, group, protocols=(("range", b""),))
    dialogue.wire.call(sync_request(group, joined.member_id, 1, {joined.member_id: b"part"}), 5)
    for version in (2, 3, 4, 5, 7, 9):
        dialogue.note(f"version {version}, a group with one member")
        for member in ("", "stranger", joined.member_id):
            ask_join(dialogue, version, group, member, protocol_type="connect")
            ask_join(dialogue, version, group, member, protocols=(("other", b""),))
            ask_join(dialogue, version, group, member, protocol_type="")
            ask_join(dialogue, version, group, member, protocols=())
            ask_join(dialogue, version, group, member, session_ms=1)
        ask_join(dialogue, version, group, "stranger")
        if version >= 5:
            ask_join(dialogue, version, group, "stranger", instance="unknown")
            ask_join(dialogue, version, group, joined.member_id, instance="unknown")


def ask_join(dialogue: Dialogue, version: int, group: str, member: str, **fields: Any) -> Any:
    return dialogue.ask(join_request(group, member, **fields), version)


@case
def consumer_group_refuses_joins(dialogue: Dialogue) -> None:
    topic = dialogue.topic()
    group = dialogue.group()
    consumer_join(dialogue, group, topic)
    for version in (3, 4, 9):
        for member in ("", "stranger", MEMBER):
            ask_join(dialogue, version, group, member)
            ask_join(dialogue, version, group, member, protocol_type="connect")
            ask_join(dialogue, version, group, member, protocols=())
    static = dialogue.group("static")
    consumer_join(dialogue, static, topic, instance_id="one")
    ask_join(dialogue, 9, static, "", instance="one")
    ask_join(dialogue, 9, static, "stranger", instance="one")


@case
def static_member_fenced(dialogue: Dialogue) -> None:
    group = dialogue.group()
    one = join(dialogue.wire, group, instance="one")
    dialogue.wire.call(sync_request(group, one.member_id, 1, {one.member_id: b"part"}, instance="one"), 5)
    again = ask_join(dialogue, 9, group, "", instance="one")
    ask_join(dialogue, 9, group, one.member_id, instance="one")
    dialogue.ask(sync_request(group, one.member_id, 1, instance="one"), 5)
    dialogue.ask(sync_request(group, again.member_id, 1, instance="one"), 5)


@case
def ids_given_out(dialogue: Dialogue) -> None:
    """What an id that was given out may do before anybody has joined with it."""
    group = dialogue.group()
    first = dialogue.wire.call(join_request(group, session_ms=6000), 9)
    second = dialogue.wire.call(join_request(group, session_ms=6000), 9)
    dialogue.ask(DescribeGroupsRequest(groups=[group]), 5)
    left = leave(dialogue.wire, group, (first.member_id, None))
    dialogue.expect("leave with an id that was given out", left.members[0].error_code)
    left = leave(dialogue.wire, group, (first.member_id, None))
    dialogue.expect("the same once more", left.members[0].error_code)
    ask_join(dialogue, 9, group, first.member_id)
    left = leave(dialogue.wire, group, (second.member_id, "instance"))
    dialogue.expect("the other, with an instance id", left.members[0].error_code)


@case
def failed_first_join(dialogue: Dialogue) -> None:
    """What of a group is there after its first JoinGroup was refused, or only given an id."""
    for word, fields in {
        "session": {"session_ms": 1},
        "protocols": {"protocols": ()},
        "type": {"protocol_type": ""},
        "stranger": {"member": "stranger"},
        "id": {},
        "instance": {"instance": "in stance"},
    }.items():
        group = dialogue.group(word)
        member = fields.pop("member", "")
        with Wire(dialogue.address) as wire:
            wire.send(join_request(group, str(member), **fields), 9)  # type: ignore[arg-type]
            wire.receive(JoinGroupRequest.API_KEY, 9)
        dialogue.ask(DescribeGroupsRequest(groups=[group]), 6)
        dialogue.ask(DescribeGroupsRequest(groups=[group]), 5)
